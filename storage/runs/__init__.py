"""What a training or a scoring keeps: who may write it, what is done, its rows."""

"""What a command is asked: parameters by model, files of settings, and the call they end in."""

"""What is learned of a source before its rows are read as features."""

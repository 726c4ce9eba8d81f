"""Graph → rates, and verdicts on the labels of rows with one label each."""

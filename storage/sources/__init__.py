"""Sources of rows: files of many formats, read as equal chunks in bounded memory."""

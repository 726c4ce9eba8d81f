"""knnoise and its peers on the same data, in turn: time, recall, memory, as ratios.

python -m benchmarks.race [--quick] [--only CASE …] [--results FOLDER] [--data FOLDER]
"""

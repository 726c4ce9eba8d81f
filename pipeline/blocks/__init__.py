"""How a pool is cut: samples, scaling, centers, halos, predicted cost."""

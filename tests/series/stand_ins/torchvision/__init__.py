"""Stands in for torchvision, whose build on the package index needs a CUDA torch; text models use none of it."""

"""The names that transformers' image code imports."""

from enum import Enum

InterpolationMode = Enum("InterpolationMode", "NEAREST NEAREST_EXACT BILINEAR BICUBIC BOX HAMMING LANCZOS")

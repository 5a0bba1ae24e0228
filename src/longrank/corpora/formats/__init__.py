"""One file format a module; reading after writing gives back what was written, or writing refuses."""

"""Every loss by name."""

from longrank.training import consistency, losses

# importing the modules is what registers their losses
MODULES = (losses, consistency)
LOSSES = losses.LOSSES

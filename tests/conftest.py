"""What holds for every test: no hub, one thread, and time limits that a busy machine does not trip."""

import os

from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread a worker; a fork with more could wait for ever
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

settings.register_profile("longrank", deadline=None, print_blob=True)
settings.load_profile("longrank")

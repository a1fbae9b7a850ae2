# SPDX-License-Identifier: Apache-2.0
"""Where results come from: what every results file starts with."""
import datetime
import json
import os
import subprocess


def environment(bundle):
    """What the bundle was built from (its bundle.json), and the machine."""
    import torch

    path = os.path.join(bundle, "bundle.json")
    built = {}
    if os.path.exists(path):
        with open(path) as file:
            built = json.load(file)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True,
                            check=False).stdout.split("\n")[0].strip()
    return {**built, "date": datetime.date.today().isoformat(), "gpu": torch.cuda.get_device_name(), "driver": driver,
            "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}

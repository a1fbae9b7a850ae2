# SPDX-License-Identifier: Apache-2.0
"""What the export scripts share: running torch.export, naming leaves, writing a folder with golden outputs."""

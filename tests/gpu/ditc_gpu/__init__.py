# SPDX-License-Identifier: Apache-2.0
"""Runs ditc's GPU kernels beside their peers in one process: cubins by the driver API, tensors and peers by torch."""

# SPDX-License-Identifier: Apache-2.0
"""many_products.py N: a function of N independent products of one row."""

import sys

count = int(sys.argv[1])
row = "tensor<1x8xf32>"
print("func.func @f(" + "".join(f"%x{i}: {row}, " for i in range(count)) + "%w: tensor<8x8xf32>) -> (" + ", ".join([row] * count) + ") {")
for i in range(count):
    print(f"  %y{i} = dit.matmul %x{i}, %w transpose_rhs : ({row}, tensor<8x8xf32>) -> {row}")
print("  return " + ", ".join(f"%y{i}" for i in range(count)) + " : " + ", ".join([row] * count) + "\n}")

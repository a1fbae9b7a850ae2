// SPDX-License-Identifier: Apache-2.0
//
// What a unit with a generated epilogue on Hopper includes.
#pragma once

#include "common/epilogue_functions.cuh"
#include "gemm_sm90.cuh"

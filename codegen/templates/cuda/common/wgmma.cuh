// SPDX-License-Identifier: Apache-2.0
//
// wgmma for one warpgroup: 64 rows times N columns over 32 bytes of k (16 values of BF16 or F16, 32 of E4M3), both operands
// in shared memory with k along their rows, fp32 accumulators in registers; N is a multiple of 16 up to 256.
//
// A thread's accumulators (warp w of the warpgroup, lane 4g + q): d[4i + 0, 1] are row 16w + g, columns 8i + 2q and
// 8i + 2q + 1; d[4i + 2, 3] are the same columns of row 16w + g + 8.
//
// NOTE: inline assembly takes no arrays, so the N/2 registers have to be spelled for every N. The macros below build the
// lists sixteen columns at a time; they exist for this file only and are undefined at its end.
#pragma once

#include "common/elements.cuh"
#include "common/ptx.cuh"

namespace ditc {

template <int N, class Element>
struct Wgmma;

// D_k names the registers of the first 16k columns inside the instruction, R_k passes them.
#define D_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define R_1 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define D_2 D_1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define R_2 R_1, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define D_3 D_2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define R_3 R_2, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define D_4 D_3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define R_4 R_3, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define D_5 D_4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define R_5 R_4, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define D_6 D_5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define R_6 R_5, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define D_7 D_6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define R_7 R_6, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define D_8 D_7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define R_8 R_7, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define D_9 D_8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define R_9 R_8, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define D_10 D_9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define R_10 R_9, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define D_11 D_10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define R_11 R_10, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), \
  "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define D_12 D_11 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define R_12 R_11, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), \
  "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define D_13 D_12 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define R_13 R_12, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), \
  "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define D_14 D_13 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define R_14 R_13, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), \
  "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define D_15 D_14 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define R_15 R_14, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), \
  "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define D_16 D_15 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define R_16 R_15, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), \
  "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// K: the count of 16-column groups. TYPE: values of k, and their type; ORDER: that k lies along the rows, where there is
// another way. A, B, P: the numbers of the operands after the accumulators.
#define WGMMA(K, N, TYPE, ORDER, TAG, A, B, P)                                                              \
  template <>                                                                                        \
  struct Wgmma<N, TAG> {                                                                             \
    __device__ static void multiply(float (&d)[8 * K], u64 a, u64 b, int accumulate) {               \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #P ", 0;"                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #N TYPE " {" D_##K "}, "                      \
                   "%" #A ", %" #B ", p, 1, 1" ORDER "; }"                                           \
                   : R_##K                                                                           \
                   : "l"(a), "l"(b), "r"(accumulate));                                               \
    }                                                                                                \
  };

WGMMA(1, 16, "k16.f32.bf16.bf16", ", 0, 0", BF16, 8, 9, 10)
WGMMA(1, 16, "k16.f32.f16.f16", ", 0, 0", F16, 8, 9, 10)
WGMMA(1, 16, "k32.f32.e4m3.e4m3", "", E4M3, 8, 9, 10)
WGMMA(2, 32, "k16.f32.bf16.bf16", ", 0, 0", BF16, 16, 17, 18)
WGMMA(2, 32, "k16.f32.f16.f16", ", 0, 0", F16, 16, 17, 18)
WGMMA(2, 32, "k32.f32.e4m3.e4m3", "", E4M3, 16, 17, 18)
WGMMA(3, 48, "k16.f32.bf16.bf16", ", 0, 0", BF16, 24, 25, 26)
WGMMA(3, 48, "k16.f32.f16.f16", ", 0, 0", F16, 24, 25, 26)
WGMMA(3, 48, "k32.f32.e4m3.e4m3", "", E4M3, 24, 25, 26)
WGMMA(4, 64, "k16.f32.bf16.bf16", ", 0, 0", BF16, 32, 33, 34)
WGMMA(4, 64, "k16.f32.f16.f16", ", 0, 0", F16, 32, 33, 34)
WGMMA(4, 64, "k32.f32.e4m3.e4m3", "", E4M3, 32, 33, 34)
WGMMA(5, 80, "k16.f32.bf16.bf16", ", 0, 0", BF16, 40, 41, 42)
WGMMA(5, 80, "k16.f32.f16.f16", ", 0, 0", F16, 40, 41, 42)
WGMMA(5, 80, "k32.f32.e4m3.e4m3", "", E4M3, 40, 41, 42)
WGMMA(6, 96, "k16.f32.bf16.bf16", ", 0, 0", BF16, 48, 49, 50)
WGMMA(6, 96, "k16.f32.f16.f16", ", 0, 0", F16, 48, 49, 50)
WGMMA(6, 96, "k32.f32.e4m3.e4m3", "", E4M3, 48, 49, 50)
WGMMA(7, 112, "k16.f32.bf16.bf16", ", 0, 0", BF16, 56, 57, 58)
WGMMA(7, 112, "k16.f32.f16.f16", ", 0, 0", F16, 56, 57, 58)
WGMMA(7, 112, "k32.f32.e4m3.e4m3", "", E4M3, 56, 57, 58)
WGMMA(8, 128, "k16.f32.bf16.bf16", ", 0, 0", BF16, 64, 65, 66)
WGMMA(8, 128, "k16.f32.f16.f16", ", 0, 0", F16, 64, 65, 66)
WGMMA(8, 128, "k32.f32.e4m3.e4m3", "", E4M3, 64, 65, 66)
WGMMA(9, 144, "k16.f32.bf16.bf16", ", 0, 0", BF16, 72, 73, 74)
WGMMA(9, 144, "k16.f32.f16.f16", ", 0, 0", F16, 72, 73, 74)
WGMMA(9, 144, "k32.f32.e4m3.e4m3", "", E4M3, 72, 73, 74)
WGMMA(10, 160, "k16.f32.bf16.bf16", ", 0, 0", BF16, 80, 81, 82)
WGMMA(10, 160, "k16.f32.f16.f16", ", 0, 0", F16, 80, 81, 82)
WGMMA(10, 160, "k32.f32.e4m3.e4m3", "", E4M3, 80, 81, 82)
WGMMA(11, 176, "k16.f32.bf16.bf16", ", 0, 0", BF16, 88, 89, 90)
WGMMA(11, 176, "k16.f32.f16.f16", ", 0, 0", F16, 88, 89, 90)
WGMMA(11, 176, "k32.f32.e4m3.e4m3", "", E4M3, 88, 89, 90)
WGMMA(12, 192, "k16.f32.bf16.bf16", ", 0, 0", BF16, 96, 97, 98)
WGMMA(12, 192, "k16.f32.f16.f16", ", 0, 0", F16, 96, 97, 98)
WGMMA(12, 192, "k32.f32.e4m3.e4m3", "", E4M3, 96, 97, 98)
WGMMA(13, 208, "k16.f32.bf16.bf16", ", 0, 0", BF16, 104, 105, 106)
WGMMA(13, 208, "k16.f32.f16.f16", ", 0, 0", F16, 104, 105, 106)
WGMMA(13, 208, "k32.f32.e4m3.e4m3", "", E4M3, 104, 105, 106)
WGMMA(14, 224, "k16.f32.bf16.bf16", ", 0, 0", BF16, 112, 113, 114)
WGMMA(14, 224, "k16.f32.f16.f16", ", 0, 0", F16, 112, 113, 114)
WGMMA(14, 224, "k32.f32.e4m3.e4m3", "", E4M3, 112, 113, 114)
WGMMA(15, 240, "k16.f32.bf16.bf16", ", 0, 0", BF16, 120, 121, 122)
WGMMA(15, 240, "k16.f32.f16.f16", ", 0, 0", F16, 120, 121, 122)
WGMMA(15, 240, "k32.f32.e4m3.e4m3", "", E4M3, 120, 121, 122)
WGMMA(16, 256, "k16.f32.bf16.bf16", ", 0, 0", BF16, 128, 129, 130)
WGMMA(16, 256, "k16.f32.f16.f16", ", 0, 0", F16, 128, 129, 130)
WGMMA(16, 256, "k32.f32.e4m3.e4m3", "", E4M3, 128, 129, 130)

#undef WGMMA
#undef D_1
#undef R_1
#undef D_2
#undef R_2
#undef D_3
#undef R_3
#undef D_4
#undef R_4
#undef D_5
#undef R_5
#undef D_6
#undef R_6
#undef D_7
#undef R_7
#undef D_8
#undef R_8
#undef D_9
#undef R_9
#undef D_10
#undef R_10
#undef D_11
#undef R_11
#undef D_12
#undef R_12
#undef D_13
#undef R_13
#undef D_14
#undef R_14
#undef D_15
#undef R_15
#undef D_16
#undef R_16

}  // namespace ditc

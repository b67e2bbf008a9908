// bfloat16 and pairs of it. Compute capability 8.0 has min, max and fma of them; the rest is made of these and of float.
#pragma once

// Numbers to float towards odd first, so that nothing is rounded twice.
TRIBUNAL_DEVICE float tribunal_odd(float x) { return x; }
#define TRIBUNAL_ODD(type, narrowed)                                                                           \
    TRIBUNAL_DEVICE float tribunal_odd(type x) {                                                               \
        float narrow = narrowed(x);                                                                            \
        return __uint_as_float(__float_as_uint(narrow) | ((type)narrow != x));                                 \
    }
TRIBUNAL_ODD(double, __double2float_rz)
TRIBUNAL_ODD(int, __int2float_rz)
TRIBUNAL_ODD(unsigned int, __uint2float_rz)
TRIBUNAL_ODD(long, __ll2float_rz)
TRIBUNAL_ODD(unsigned long, __ull2float_rz)
TRIBUNAL_ODD(long long, __ll2float_rz)
TRIBUNAL_ODD(unsigned long long, __ull2float_rz)
#undef TRIBUNAL_ODD
template <class T> TRIBUNAL_DEVICE unsigned short tribunal_bfloat16_rn(T x) {
    unsigned short bits;
    __asm__("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(tribunal_odd(x)));
    return bits;
}
template <class T> TRIBUNAL_DEVICE unsigned short tribunal_bfloat16_rz(T x) {
    unsigned short bits;
    __asm__("cvt.rz.bf16.f32 %0, %1;" : "=h"(bits) : "f"(tribunal_odd(x)));
    return bits;
}
// What is cut off moves numbers of one sign on by one.
TRIBUNAL_DEVICE unsigned short tribunal_bfloat16_away(float x, unsigned int sign) {
    unsigned int bits = __float_as_uint(x);
    return (unsigned short)(tribunal_bfloat16_rz(x) + (x == x && (bits & 0xffff) != 0 && bits >> 31 == sign));
}
template <class T> TRIBUNAL_DEVICE unsigned short tribunal_bfloat16_ru(T x) {
    return tribunal_bfloat16_away(tribunal_odd(x), 0);
}
template <class T> TRIBUNAL_DEVICE unsigned short tribunal_bfloat16_rd(T x) {
    return tribunal_bfloat16_away(tribunal_odd(x), 1);
}
TRIBUNAL_DEVICE float tribunal_bfloat16_wide(unsigned short bits) { return __uint_as_float((unsigned int)bits << 16); }

#define TRIBUNAL_HALF __nv_bfloat16
#define TRIBUNAL_PAIR __nv_bfloat162
#define TRIBUNAL_RAW __nv_bfloat16_raw
#define TRIBUNAL_RAW2 __nv_bfloat162_raw
#define TRIBUNAL_TYPE ".bf16"
#define TRIBUNAL_ONE 0x3f80
#define TRIBUNAL_HAS_ADD 0
#define TRIBUNAL_NAMED(a, b) a##bfloat16##b
#define TRIBUNAL_TWICE __bfloat162bfloat162
#include "tribunal/halves.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7f)
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)

// Before compute capability 9.0 no instruction adds: compared and exchanged until nobody came between.
TRIBUNAL_DEVICE __nv_bfloat162 atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 value) {
    unsigned int seen = *(unsigned int *)p, old;
    do {
        old = seen;
        unsigned int sum = tribunal_pair(__hadd2(__builtin_bit_cast(__nv_bfloat162, old), value));
        seen = atomicCAS((unsigned int *)p, old, sum);
    } while (seen != old);
    return __builtin_bit_cast(__nv_bfloat162, old);
}
TRIBUNAL_DEVICE __nv_bfloat16 atomicAdd(__nv_bfloat16 *p, __nv_bfloat16 value) {
    unsigned short seen = *(unsigned short *)p, old;
    do {
        old = seen;
        unsigned short sum = __hadd(__ushort_as_bfloat16(old), value).tribunal_bits;
        __asm__ volatile("atom.cas.b16 %0, [%1], %2, %3;" : "=h"(seen) : "l"(p), "h"(old), "h"(sum) : "memory");
    } while (seen != old);
    return __ushort_as_bfloat16(old);
}

// half and half2: IEEE binary16, by the f16 instructions of PTX.
#pragma once

#define TRIBUNAL_ROUND(name, rounding, type, suffix, letter)                                                   \
    TRIBUNAL_DEVICE unsigned short name(type x) {                                                              \
        unsigned short bits;                                                                                   \
        __asm__("cvt." rounding ".f16." suffix " %0, %1;" : "=h"(bits) : letter(x));                           \
        return bits;                                                                                           \
    }
#define TRIBUNAL_ROUNDINGS(type, suffix, letter)                                                               \
    TRIBUNAL_ROUND(tribunal_half_rn, "rn", type, suffix, letter)                                               \
    TRIBUNAL_ROUND(tribunal_half_rz, "rz", type, suffix, letter)                                               \
    TRIBUNAL_ROUND(tribunal_half_ru, "rp", type, suffix, letter)                                               \
    TRIBUNAL_ROUND(tribunal_half_rd, "rm", type, suffix, letter)
TRIBUNAL_ROUNDINGS(float, "f32", "f")
TRIBUNAL_ROUNDINGS(double, "f64", "d")
TRIBUNAL_ROUNDINGS(int, "s32", "r")
TRIBUNAL_ROUNDINGS(unsigned int, "u32", "r")
TRIBUNAL_ROUNDINGS(long, "s64", "l")
TRIBUNAL_ROUNDINGS(unsigned long, "u64", "l")
TRIBUNAL_ROUNDINGS(long long, "s64", "l")
TRIBUNAL_ROUNDINGS(unsigned long long, "u64", "l")
#undef TRIBUNAL_ROUND
#undef TRIBUNAL_ROUNDINGS
TRIBUNAL_DEVICE float tribunal_half_wide(unsigned short bits) {
    float wide;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
}

#define TRIBUNAL_HALF __half
#define TRIBUNAL_PAIR __half2
#define TRIBUNAL_RAW __half_raw
#define TRIBUNAL_RAW2 __half2_raw
#define TRIBUNAL_TYPE ".f16"
#define TRIBUNAL_ONE 0x3c00
#define TRIBUNAL_HAS_ADD 1
#define TRIBUNAL_NAMED(a, b) a##half##b
#define TRIBUNAL_TWICE __half2half2
#include "tribunal/halves.h"

typedef __half half, __nv_half, nv_half;
typedef __half2 half2, __nv_half2, nv_half2;

#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bff)
#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fff)

TRIBUNAL_DEVICE __half2 atomicAdd(__half2 *p, __half2 value) {
    unsigned int old;
    __asm__ volatile("atom.add.noftz.f16x2 %0, [%1], %2;"
                     : "=r"(old)
                     : "l"(p), "r"(tribunal_pair(value))
                     : "memory");
    return __builtin_bit_cast(__half2, old);
}
TRIBUNAL_DEVICE __half atomicAdd(__half *p, __half value) {
    unsigned short old;
    __asm__ volatile("atom.add.noftz.f16 %0, [%1], %2;"
                     : "=h"(old)
                     : "l"(p), "h"(value.tribunal_bits)
                     : "memory");
    return __ushort_as_half(old);
}

// Bits of integers and floats, integer intrinsics, conversions with a rounding.
#pragma once

TRIBUNAL_BOTH int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
TRIBUNAL_BOTH unsigned int __float_as_uint(float x) { return __builtin_bit_cast(unsigned int, x); }
TRIBUNAL_BOTH float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
TRIBUNAL_BOTH float __uint_as_float(unsigned int x) { return __builtin_bit_cast(float, x); }
TRIBUNAL_BOTH long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
TRIBUNAL_BOTH double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
TRIBUNAL_DEVICE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
TRIBUNAL_DEVICE int __double2loint(double x) { return (int)__double_as_longlong(x); }
TRIBUNAL_DEVICE double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned int)high << 32 | (unsigned int)low));
}

TRIBUNAL_DEVICE int __popc(unsigned int x) { return __builtin_popcount(x); }
TRIBUNAL_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
TRIBUNAL_DEVICE int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
TRIBUNAL_DEVICE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
TRIBUNAL_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
TRIBUNAL_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
TRIBUNAL_DEVICE unsigned int __brev(unsigned int x) { return __builtin_bitreverse32(x); }
TRIBUNAL_DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
TRIBUNAL_DEVICE unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
    unsigned int result;
    __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(selector & 0x7777u));
    return result;
}
// Where the set bit is that is `offset` set bits from `base` on, which counts as the first of them; all ones if there is none.
TRIBUNAL_DEVICE unsigned int __fns(unsigned int mask, unsigned int base, int offset) {
    int step = offset < 0 ? -1 : 1, count = offset == 0 ? 1 : offset * step;
    for (int i = (int)base; i >= 0 && i < 32; i += step) {
        count -= (int)(mask >> i & 1);
        if (count == 0) return (unsigned int)i;
        if (offset == 0) break;
    }
    return 0xffffffffu;
}
TRIBUNAL_DEVICE unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
    unsigned int result;
    __asm__("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(shift));
    return result;
}
TRIBUNAL_DEVICE unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
    unsigned int result;
    __asm__("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(shift));
    return result;
}
TRIBUNAL_DEVICE unsigned int __funnelshift_lc(unsigned int low, unsigned int high, unsigned int shift) {
    unsigned int result;
    __asm__("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(shift));
    return result;
}
TRIBUNAL_DEVICE unsigned int __funnelshift_rc(unsigned int low, unsigned int high, unsigned int shift) {
    unsigned int result;
    __asm__("shf.r.clamp.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(shift));
    return result;
}
#define TRIBUNAL_DOT(name, type, instruction, vector, factor)                                                  \
    TRIBUNAL_DEVICE type name(type a, type b, type c) {                                                        \
        type result;                                                                                           \
        __asm__(instruction " %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));                       \
        return result;                                                                                         \
    }                                                                                                          \
    TRIBUNAL_DEVICE type name(vector a, factor b, type c) {                                                    \
        return name(__builtin_bit_cast(type, a), __builtin_bit_cast(type, b), c);                              \
    }
TRIBUNAL_DOT(__dp4a, int, "dp4a.s32.s32", char4, char4)
TRIBUNAL_DOT(__dp4a, unsigned int, "dp4a.u32.u32", uchar4, uchar4)
TRIBUNAL_DOT(__dp2a_lo, int, "dp2a.lo.s32.s32", short2, char4)
TRIBUNAL_DOT(__dp2a_lo, unsigned int, "dp2a.lo.u32.u32", ushort2, uchar4)
TRIBUNAL_DOT(__dp2a_hi, int, "dp2a.hi.s32.s32", short2, char4)
TRIBUNAL_DOT(__dp2a_hi, unsigned int, "dp2a.hi.u32.u32", ushort2, uchar4)
#undef TRIBUNAL_DOT

TRIBUNAL_DEVICE int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
TRIBUNAL_DEVICE unsigned int __umulhi(unsigned int x, unsigned int y) {
    return (unsigned int)((unsigned long long)x * y >> 32);
}
TRIBUNAL_DEVICE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    unsigned long long result;
    __asm__("mul.hi.u64 %0, %1, %2;" : "=l"(result) : "l"(x), "l"(y));
    return result;
}
TRIBUNAL_DEVICE long long __mul64hi(long long x, long long y) {
    long long result;
    __asm__("mul.hi.s64 %0, %1, %2;" : "=l"(result) : "l"(x), "l"(y));
    return result;
}
TRIBUNAL_DEVICE int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
TRIBUNAL_DEVICE unsigned int __umul24(unsigned int x, unsigned int y) { return (x & 0xffffffu) * (y & 0xffffffu); }
TRIBUNAL_DEVICE unsigned int __sad(int x, int y, unsigned int z) {
    return z + (x < y ? (unsigned int)y - (unsigned int)x : (unsigned int)x - (unsigned int)y);
}
TRIBUNAL_DEVICE unsigned int __usad(unsigned int x, unsigned int y, unsigned int z) { return z + (x < y ? y - x : x - y); }
// Averages that do not overflow, rounded down and up.
TRIBUNAL_DEVICE int __hadd(int x, int y) { return (x & y) + ((x ^ y) >> 1); }
TRIBUNAL_DEVICE int __rhadd(int x, int y) { return (x | y) - ((x ^ y) >> 1); }
TRIBUNAL_DEVICE unsigned int __uhadd(unsigned int x, unsigned int y) { return (x & y) + ((x ^ y) >> 1); }
TRIBUNAL_DEVICE unsigned int __urhadd(unsigned int x, unsigned int y) { return (x | y) - ((x ^ y) >> 1); }

// Conversions: NaN becomes 0, what is too large the largest, as the hardware's cvt does.
#define TRIBUNAL_CONVERT(name, to, from, instruction, result, operand)                                         \
    TRIBUNAL_DEVICE to name(from x) {                                                                          \
        to converted;                                                                                          \
        __asm__(instruction " %0, %1;" : result(converted) : operand(x));                                      \
        return converted;                                                                                      \
    }
#define TRIBUNAL_ROUNDINGS(name, to, from, types, result, operand)                                             \
    TRIBUNAL_CONVERT(name##_rn, to, from, "cvt.rni." types, result, operand)                                   \
    TRIBUNAL_CONVERT(name##_rz, to, from, "cvt.rzi." types, result, operand)                                   \
    TRIBUNAL_CONVERT(name##_ru, to, from, "cvt.rpi." types, result, operand)                                   \
    TRIBUNAL_CONVERT(name##_rd, to, from, "cvt.rmi." types, result, operand)
TRIBUNAL_ROUNDINGS(__float2int, int, float, "s32.f32", "=r", "f")
TRIBUNAL_ROUNDINGS(__float2uint, unsigned int, float, "u32.f32", "=r", "f")
TRIBUNAL_ROUNDINGS(__float2ll, long long, float, "s64.f32", "=l", "f")
TRIBUNAL_ROUNDINGS(__float2ull, unsigned long long, float, "u64.f32", "=l", "f")
TRIBUNAL_ROUNDINGS(__double2int, int, double, "s32.f64", "=r", "d")
TRIBUNAL_ROUNDINGS(__double2uint, unsigned int, double, "u32.f64", "=r", "d")
TRIBUNAL_ROUNDINGS(__double2ll, long long, double, "s64.f64", "=l", "d")
TRIBUNAL_ROUNDINGS(__double2ull, unsigned long long, double, "u64.f64", "=l", "d")
#undef TRIBUNAL_ROUNDINGS
#define TRIBUNAL_ROUNDINGS(name, to, from, types, result, operand)                                             \
    TRIBUNAL_CONVERT(name##_rn, to, from, "cvt.rn." types, result, operand)                                    \
    TRIBUNAL_CONVERT(name##_rz, to, from, "cvt.rz." types, result, operand)                                    \
    TRIBUNAL_CONVERT(name##_ru, to, from, "cvt.rp." types, result, operand)                                    \
    TRIBUNAL_CONVERT(name##_rd, to, from, "cvt.rm." types, result, operand)
TRIBUNAL_ROUNDINGS(__int2float, float, int, "f32.s32", "=f", "r")
TRIBUNAL_ROUNDINGS(__uint2float, float, unsigned int, "f32.u32", "=f", "r")
TRIBUNAL_ROUNDINGS(__ll2float, float, long long, "f32.s64", "=f", "l")
TRIBUNAL_ROUNDINGS(__ull2float, float, unsigned long long, "f32.u64", "=f", "l")
TRIBUNAL_ROUNDINGS(__double2float, float, double, "f32.f64", "=f", "d")
TRIBUNAL_ROUNDINGS(__ll2double, double, long long, "f64.s64", "=d", "l")
TRIBUNAL_ROUNDINGS(__ull2double, double, unsigned long long, "f64.u64", "=d", "l")
#undef TRIBUNAL_ROUNDINGS
#undef TRIBUNAL_CONVERT
TRIBUNAL_DEVICE double __int2double_rn(int x) { return x; }
TRIBUNAL_DEVICE double __uint2double_rn(unsigned int x) { return x; }

// What half and bfloat16 have alike. Each of their headers includes this once, after saying of what: TRIBUNAL_HALF and
// TRIBUNAL_PAIR are the types, TRIBUNAL_RAW and TRIBUNAL_RAW2 their bits, TRIBUNAL_TYPE is PTX's suffix, TRIBUNAL_ONE the bits of 1,
// TRIBUNAL_HAS_ADD whether there are add, sub and mul, TRIBUNAL_TWICE the function that makes a pair of one, and TRIBUNAL_NAMED(a, b) is a
// name with the type's between a and b; so named are tribunal_…_rn, rz, ru and rd, which round a number to bits, and tribunal_…_wide, which
// makes a float of them.

struct TRIBUNAL_RAW {
    unsigned short x;
};

struct __attribute__((aligned(4))) TRIBUNAL_RAW2 {
    unsigned short x, y;
};

// To integers: NaN becomes what the hardware's cvt makes of it, and what is too large the largest.
#define TRIBUNAL_INTEGERS(make)                                                                                \
    make(short, short, ".s16", "=h", short) make(ushort, unsigned short, ".u16", "=h", unsigned short)         \
    make(int, int, ".s32", "=r", int) make(uint, unsigned int, ".u32", "=r", unsigned int)                     \
    make(ll, long long, ".s64", "=l", long long) make(ull, unsigned long long, ".u64", "=l", unsigned long long)

struct __attribute__((aligned(2))) TRIBUNAL_HALF {
    unsigned short tribunal_bits;
    TRIBUNAL_HALF() = default;
    TRIBUNAL_BOTH constexpr TRIBUNAL_HALF(TRIBUNAL_RAW raw) : tribunal_bits(raw.x) {}
    TRIBUNAL_BOTH constexpr operator TRIBUNAL_RAW() const { return TRIBUNAL_RAW{tribunal_bits}; }
    TRIBUNAL_MEMBER operator float() const { return TRIBUNAL_NAMED(tribunal_, _wide)(tribunal_bits); }
    TRIBUNAL_MEMBER explicit operator bool() const { return (tribunal_bits & 0x7fff) != 0; }
#define TRIBUNAL_FROM(type)                                                                                    \
    TRIBUNAL_MEMBER TRIBUNAL_HALF(type x) : tribunal_bits(TRIBUNAL_NAMED(tribunal_, _rn)(x)) {}
    TRIBUNAL_FROM(float)
    TRIBUNAL_FROM(double)
    TRIBUNAL_FROM(short)
    TRIBUNAL_FROM(unsigned short)
    TRIBUNAL_FROM(int)
    TRIBUNAL_FROM(unsigned int)
    TRIBUNAL_FROM(long)
    TRIBUNAL_FROM(unsigned long)
    TRIBUNAL_FROM(long long)
    TRIBUNAL_FROM(unsigned long long)
#undef TRIBUNAL_FROM
#define TRIBUNAL_TO(name, type, suffix, letter, word)                                                          \
    TRIBUNAL_MEMBER explicit operator type() const {                                                           \
        word whole;                                                                                            \
        __asm__("cvt.rzi" suffix ".f32 %0, %1;" : letter(whole) : "f"((float)*this));                          \
        return (type)whole;                                                                                    \
    }
    TRIBUNAL_INTEGERS(TRIBUNAL_TO)
    TRIBUNAL_TO(char, char, ".s8", "=h", short)
    TRIBUNAL_TO(schar, signed char, ".s8", "=h", short)
    TRIBUNAL_TO(uchar, unsigned char, ".u8", "=h", unsigned short)
    TRIBUNAL_TO(long, long, ".s64", "=l", long)
    TRIBUNAL_TO(ulong, unsigned long, ".u64", "=l", unsigned long)
#undef TRIBUNAL_TO
};

struct __attribute__((aligned(4))) TRIBUNAL_PAIR {
    TRIBUNAL_HALF x, y;
    TRIBUNAL_PAIR() = default;
    TRIBUNAL_BOTH constexpr TRIBUNAL_PAIR(TRIBUNAL_HALF x, TRIBUNAL_HALF y) : x(x), y(y) {}
    TRIBUNAL_BOTH constexpr TRIBUNAL_PAIR(TRIBUNAL_RAW2 raw) : x(TRIBUNAL_RAW{raw.x}), y(TRIBUNAL_RAW{raw.y}) {}
    TRIBUNAL_BOTH constexpr operator TRIBUNAL_RAW2() const { return TRIBUNAL_RAW2{x.tribunal_bits, y.tribunal_bits}; }
};

TRIBUNAL_BOTH TRIBUNAL_HALF TRIBUNAL_NAMED(__ushort_as_, )(unsigned short bits) {
    return TRIBUNAL_HALF(TRIBUNAL_RAW{bits});
}
TRIBUNAL_BOTH TRIBUNAL_HALF TRIBUNAL_NAMED(__short_as_, )(short bits) {
    return TRIBUNAL_HALF(TRIBUNAL_RAW{(unsigned short)bits});
}
TRIBUNAL_BOTH unsigned short TRIBUNAL_NAMED(__, _as_ushort)(TRIBUNAL_HALF x) { return x.tribunal_bits; }
TRIBUNAL_BOTH short TRIBUNAL_NAMED(__, _as_short)(TRIBUNAL_HALF x) { return (short)x.tribunal_bits; }
TRIBUNAL_DEVICE unsigned int tribunal_pair(TRIBUNAL_PAIR v) { return __builtin_bit_cast(unsigned int, v); }

// Conversions.
#define TRIBUNAL_FROM(name, type, rounding)                                                                    \
    TRIBUNAL_DEVICE TRIBUNAL_HALF TRIBUNAL_NAMED(__##name##2, _##rounding)(type x) {                           \
        return TRIBUNAL_NAMED(__ushort_as_, )(TRIBUNAL_NAMED(tribunal_, _##rounding)(x));                      \
    }
#define TRIBUNAL_TO(name, type, rounding, instruction, suffix, letter)                                         \
    TRIBUNAL_DEVICE type TRIBUNAL_NAMED(__, 2##name##_##rounding)(TRIBUNAL_HALF x) {                           \
        type whole;                                                                                            \
        __asm__("cvt." instruction suffix ".f32 %0, %1;" : letter(whole) : "f"((float)x));                     \
        return whole;                                                                                          \
    }
#define TRIBUNAL_ROUNDINGS(name, type, suffix, letter, word)                                                   \
    TRIBUNAL_FROM(name, type, rn)                                                                              \
    TRIBUNAL_FROM(name, type, rz)                                                                              \
    TRIBUNAL_FROM(name, type, ru)                                                                              \
    TRIBUNAL_FROM(name, type, rd)                                                                              \
    TRIBUNAL_TO(name, type, rn, "rni", suffix, letter)                                                         \
    TRIBUNAL_TO(name, type, rz, "rzi", suffix, letter)                                                         \
    TRIBUNAL_TO(name, type, ru, "rpi", suffix, letter)                                                         \
    TRIBUNAL_TO(name, type, rd, "rmi", suffix, letter)
TRIBUNAL_INTEGERS(TRIBUNAL_ROUNDINGS)
TRIBUNAL_FROM(float, float, rn)
TRIBUNAL_FROM(float, float, rz)
TRIBUNAL_FROM(float, float, ru)
TRIBUNAL_FROM(float, float, rd)
#undef TRIBUNAL_FROM
#undef TRIBUNAL_TO
#undef TRIBUNAL_ROUNDINGS
#undef TRIBUNAL_INTEGERS
TRIBUNAL_DEVICE signed char TRIBUNAL_NAMED(__, 2char_rz)(TRIBUNAL_HALF x) { return (signed char)x; }
TRIBUNAL_DEVICE unsigned char TRIBUNAL_NAMED(__, 2uchar_rz)(TRIBUNAL_HALF x) { return (unsigned char)x; }
TRIBUNAL_DEVICE TRIBUNAL_HALF TRIBUNAL_NAMED(__float2, )(float x) { return TRIBUNAL_HALF(x); }
TRIBUNAL_DEVICE TRIBUNAL_HALF TRIBUNAL_NAMED(__double2, )(double x) { return TRIBUNAL_HALF(x); }
TRIBUNAL_DEVICE float TRIBUNAL_NAMED(__, 2float)(TRIBUNAL_HALF x) { return (float)x; }

// Pairs.
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(make_, 2)(TRIBUNAL_HALF x, TRIBUNAL_HALF y) { return TRIBUNAL_PAIR(x, y); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(__halves2, 2)(TRIBUNAL_HALF x, TRIBUNAL_HALF y) { return TRIBUNAL_PAIR(x, y); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_TWICE(TRIBUNAL_HALF x) { return TRIBUNAL_PAIR(x, x); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(__float2, 2_rn)(float x) { return TRIBUNAL_TWICE(TRIBUNAL_HALF(x)); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(__floats2, 2_rn)(float x, float y) {
    return TRIBUNAL_PAIR(TRIBUNAL_HALF(x), TRIBUNAL_HALF(y));
}
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(__float22, 2_rn)(float2 v) {
    return TRIBUNAL_PAIR(TRIBUNAL_HALF(v.x), TRIBUNAL_HALF(v.y));
}
TRIBUNAL_DEVICE float2 TRIBUNAL_NAMED(__, 22float2)(TRIBUNAL_PAIR v) { return make_float2((float)v.x, (float)v.y); }
TRIBUNAL_DEVICE float __low2float(TRIBUNAL_PAIR v) { return (float)v.x; }
TRIBUNAL_DEVICE float __high2float(TRIBUNAL_PAIR v) { return (float)v.y; }
TRIBUNAL_DEVICE TRIBUNAL_HALF TRIBUNAL_NAMED(__low2, )(TRIBUNAL_PAIR v) { return v.x; }
TRIBUNAL_DEVICE TRIBUNAL_HALF TRIBUNAL_NAMED(__high2, )(TRIBUNAL_PAIR v) { return v.y; }
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(__low2, 2)(TRIBUNAL_PAIR v) { return TRIBUNAL_PAIR(v.x, v.x); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(__high2, 2)(TRIBUNAL_PAIR v) { return TRIBUNAL_PAIR(v.y, v.y); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(__lows2, 2)(TRIBUNAL_PAIR v, TRIBUNAL_PAIR w) { return TRIBUNAL_PAIR(v.x, w.x); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR TRIBUNAL_NAMED(__highs2, 2)(TRIBUNAL_PAIR v, TRIBUNAL_PAIR w) { return TRIBUNAL_PAIR(v.y, w.y); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR __lowhigh2highlow(TRIBUNAL_PAIR v) { return TRIBUNAL_PAIR(v.y, v.x); }

// Arithmetic, of one and of pairs: an instruction with as many operands as its macro says.
#define TRIBUNAL_ARITHMETIC1(name, pair, instruction)                                                          \
    TRIBUNAL_DEVICE TRIBUNAL_HALF name(TRIBUNAL_HALF a) {                                                      \
        unsigned short r;                                                                                      \
        __asm__(instruction TRIBUNAL_TYPE " %0, %1;" : "=h"(r) : "h"(a.tribunal_bits));                        \
        return __builtin_bit_cast(TRIBUNAL_HALF, r);                                                           \
    }                                                                                                          \
    TRIBUNAL_DEVICE TRIBUNAL_PAIR pair(TRIBUNAL_PAIR a) {                                                      \
        unsigned int r;                                                                                        \
        __asm__(instruction TRIBUNAL_TYPE "x2 %0, %1;" : "=r"(r) : "r"(tribunal_pair(a)));                     \
        return __builtin_bit_cast(TRIBUNAL_PAIR, r);                                                           \
    }
#define TRIBUNAL_ARITHMETIC2(name, pair, instruction)                                                          \
    TRIBUNAL_DEVICE TRIBUNAL_HALF name(TRIBUNAL_HALF a, TRIBUNAL_HALF b) {                                     \
        unsigned short r;                                                                                      \
        __asm__(instruction TRIBUNAL_TYPE " %0, %1, %2;" : "=h"(r) : "h"(a.tribunal_bits), "h"(b.tribunal_bits)); \
        return __builtin_bit_cast(TRIBUNAL_HALF, r);                                                           \
    }                                                                                                          \
    TRIBUNAL_DEVICE TRIBUNAL_PAIR pair(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b) {                                     \
        unsigned int r;                                                                                        \
        __asm__(instruction TRIBUNAL_TYPE "x2 %0, %1, %2;"                                                     \
                : "=r"(r)                                                                                      \
                : "r"(tribunal_pair(a)), "r"(tribunal_pair(b)));                                               \
        return __builtin_bit_cast(TRIBUNAL_PAIR, r);                                                           \
    }
#define TRIBUNAL_ARITHMETIC3(name, pair, instruction)                                                          \
    TRIBUNAL_DEVICE TRIBUNAL_HALF name(TRIBUNAL_HALF a, TRIBUNAL_HALF b, TRIBUNAL_HALF c) {                    \
        unsigned short r;                                                                                      \
        __asm__(instruction TRIBUNAL_TYPE " %0, %1, %2, %3;"                                                   \
                : "=h"(r)                                                                                      \
                : "h"(a.tribunal_bits), "h"(b.tribunal_bits), "h"(c.tribunal_bits));                           \
        return __builtin_bit_cast(TRIBUNAL_HALF, r);                                                           \
    }                                                                                                          \
    TRIBUNAL_DEVICE TRIBUNAL_PAIR pair(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b, TRIBUNAL_PAIR c) {                    \
        unsigned int r;                                                                                        \
        __asm__(instruction TRIBUNAL_TYPE "x2 %0, %1, %2, %3;"                                                 \
                : "=r"(r)                                                                                      \
                : "r"(tribunal_pair(a)), "r"(tribunal_pair(b)), "r"(tribunal_pair(c)));                        \
        return __builtin_bit_cast(TRIBUNAL_PAIR, r);                                                           \
    }
TRIBUNAL_ARITHMETIC1(__hneg, __hneg2, "neg")
TRIBUNAL_ARITHMETIC1(__habs, __habs2, "abs")
TRIBUNAL_ARITHMETIC2(__hmin, __hmin2, "min")
TRIBUNAL_ARITHMETIC2(__hmax, __hmax2, "max")
TRIBUNAL_ARITHMETIC2(__hmin_nan, __hmin2_nan, "min.NaN")
TRIBUNAL_ARITHMETIC2(__hmax_nan, __hmax2_nan, "max.NaN")
TRIBUNAL_ARITHMETIC3(__hfma, __hfma2, "fma.rn")
TRIBUNAL_ARITHMETIC3(__hfma_relu, __hfma2_relu, "fma.rn.relu")
#if TRIBUNAL_HAS_ADD
TRIBUNAL_ARITHMETIC1(htanh_approx, h2tanh_approx, "tanh.approx")
TRIBUNAL_ARITHMETIC2(__hadd, __hadd2, "add")
TRIBUNAL_ARITHMETIC2(__hsub, __hsub2, "sub")
TRIBUNAL_ARITHMETIC2(__hmul, __hmul2, "mul")
TRIBUNAL_ARITHMETIC2(__hadd_rn, __hadd2_rn, "add.rn")
TRIBUNAL_ARITHMETIC2(__hsub_rn, __hsub2_rn, "sub.rn")
TRIBUNAL_ARITHMETIC2(__hmul_rn, __hmul2_rn, "mul.rn")
TRIBUNAL_ARITHMETIC2(__hadd_sat, __hadd2_sat, "add.sat")
TRIBUNAL_ARITHMETIC2(__hsub_sat, __hsub2_sat, "sub.sat")
TRIBUNAL_ARITHMETIC2(__hmul_sat, __hmul2_sat, "mul.sat")
TRIBUNAL_ARITHMETIC3(__hfma_sat, __hfma2_sat, "fma.rn.sat")
#else
// Sums and products are fma with 1 and -0, which rounds them once too.
TRIBUNAL_DEVICE TRIBUNAL_HALF tribunal_each(TRIBUNAL_HALF, unsigned short bits) {
    return TRIBUNAL_NAMED(__ushort_as_, )(bits);
}
TRIBUNAL_DEVICE TRIBUNAL_PAIR tribunal_each(TRIBUNAL_PAIR, unsigned short bits) {
    return TRIBUNAL_TWICE(TRIBUNAL_NAMED(__ushort_as_, )(bits));
}
#define TRIBUNAL_SUMS(type, of2)                                                                               \
    TRIBUNAL_DEVICE type __hadd##of2(type a, type b) { return __hfma##of2(a, tribunal_each(a, TRIBUNAL_ONE), b); } \
    TRIBUNAL_DEVICE type __hsub##of2(type a, type b) {                                                         \
        return __hfma##of2(b, tribunal_each(a, 0x8000 | TRIBUNAL_ONE), a);                                     \
    }                                                                                                          \
    TRIBUNAL_DEVICE type __hmul##of2(type a, type b) { return __hfma##of2(a, b, tribunal_each(a, 0x8000)); }   \
    TRIBUNAL_DEVICE type __hadd##of2##_rn(type a, type b) { return __hadd##of2(a, b); }                        \
    TRIBUNAL_DEVICE type __hsub##of2##_rn(type a, type b) { return __hsub##of2(a, b); }                        \
    TRIBUNAL_DEVICE type __hmul##of2##_rn(type a, type b) { return __hmul##of2(a, b); }                        \
    TRIBUNAL_DEVICE type tribunal_saturated(type a) {                                                          \
        return __hmin##of2(__hmax##of2(a, tribunal_each(a, 0)), tribunal_each(a, TRIBUNAL_ONE));               \
    }                                                                                                          \
    TRIBUNAL_DEVICE type __hadd##of2##_sat(type a, type b) { return tribunal_saturated(__hadd##of2(a, b)); }   \
    TRIBUNAL_DEVICE type __hsub##of2##_sat(type a, type b) { return tribunal_saturated(__hsub##of2(a, b)); }   \
    TRIBUNAL_DEVICE type __hmul##of2##_sat(type a, type b) { return tribunal_saturated(__hmul##of2(a, b)); }   \
    TRIBUNAL_DEVICE type __hfma##of2##_sat(type a, type b, type c) {                                           \
        return tribunal_saturated(__hfma##of2(a, b, c));                                                       \
    }
TRIBUNAL_SUMS(TRIBUNAL_HALF, )
TRIBUNAL_SUMS(TRIBUNAL_PAIR, 2)
#undef TRIBUNAL_SUMS
#endif
#undef TRIBUNAL_ARITHMETIC1
#undef TRIBUNAL_ARITHMETIC2
#undef TRIBUNAL_ARITHMETIC3

TRIBUNAL_DEVICE TRIBUNAL_HALF __hdiv(TRIBUNAL_HALF a, TRIBUNAL_HALF b) { return TRIBUNAL_HALF((float)a / (float)b); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR __h2div(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b) {
    return TRIBUNAL_PAIR(__hdiv(a.x, b.x), __hdiv(a.y, b.y));
}
// a b + c of complex numbers.
TRIBUNAL_DEVICE TRIBUNAL_PAIR __hcmadd(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b, TRIBUNAL_PAIR c) {
    return TRIBUNAL_PAIR(
        __hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));
}

// Comparisons: false where one is a NaN; names with u true then. Of pairs, 1 or 0 for each half, with b whether both hold, or masks.
#define TRIBUNAL_COMPARE(name, condition)                                                                      \
    TRIBUNAL_DEVICE bool __h##name(TRIBUNAL_HALF a, TRIBUNAL_HALF b) {                                         \
        float x = (float)a, y = (float)b;                                                                      \
        return condition;                                                                                      \
    }                                                                                                          \
    TRIBUNAL_DEVICE bool __hb##name##2(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b) {                                     \
        return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                                     \
    }                                                                                                          \
    TRIBUNAL_DEVICE unsigned int __h##name##2_mask(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b) {                         \
        return (__h##name(a.x, b.x) ? 0xffffu : 0) | (__h##name(a.y, b.y) ? 0xffff0000u : 0);                  \
    }                                                                                                          \
    TRIBUNAL_DEVICE TRIBUNAL_PAIR __h##name##2(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b) {                             \
        return __builtin_bit_cast(TRIBUNAL_PAIR, __h##name##2_mask(a, b) & TRIBUNAL_ONE * 0x10001u);           \
    }
TRIBUNAL_COMPARE(eq, x == y)
TRIBUNAL_COMPARE(ne, x < y || x > y)
TRIBUNAL_COMPARE(lt, x < y)
TRIBUNAL_COMPARE(le, x <= y)
TRIBUNAL_COMPARE(gt, x > y)
TRIBUNAL_COMPARE(ge, x >= y)
TRIBUNAL_COMPARE(equ, !(x < y || x > y))
TRIBUNAL_COMPARE(neu, x != y)
TRIBUNAL_COMPARE(ltu, !(x >= y))
TRIBUNAL_COMPARE(leu, !(x > y))
TRIBUNAL_COMPARE(gtu, !(x <= y))
TRIBUNAL_COMPARE(geu, !(x < y))
#undef TRIBUNAL_COMPARE
TRIBUNAL_DEVICE bool __hisnan(TRIBUNAL_HALF a) { return isnan((float)a); }
TRIBUNAL_DEVICE TRIBUNAL_PAIR __hisnan2(TRIBUNAL_PAIR a) { return __hneu2(a, a); }
TRIBUNAL_DEVICE int __hisinf(TRIBUNAL_HALF a) {
    float x = (float)a;
    return isinf(x) ? (x < 0.0f ? -1 : 1) : 0;
}

// Functions: those of float, rounded.
#define TRIBUNAL_FUNCTION(name, function)                                                                      \
    TRIBUNAL_DEVICE TRIBUNAL_HALF h##name(TRIBUNAL_HALF a) { return TRIBUNAL_HALF(function((float)a)); }       \
    TRIBUNAL_DEVICE TRIBUNAL_PAIR h2##name(TRIBUNAL_PAIR a) { return TRIBUNAL_PAIR(h##name(a.x), h##name(a.y)); }
TRIBUNAL_FUNCTION(exp, expf)
TRIBUNAL_FUNCTION(exp2, exp2f)
TRIBUNAL_FUNCTION(exp10, exp10f)
TRIBUNAL_FUNCTION(log, logf)
TRIBUNAL_FUNCTION(log2, log2f)
TRIBUNAL_FUNCTION(log10, log10f)
TRIBUNAL_FUNCTION(sqrt, sqrtf)
TRIBUNAL_FUNCTION(rsqrt, rsqrtf)
TRIBUNAL_FUNCTION(rcp, __frcp_rn)
TRIBUNAL_FUNCTION(sin, sinf)
TRIBUNAL_FUNCTION(cos, cosf)
TRIBUNAL_FUNCTION(tanh, tanhf)
#if !TRIBUNAL_HAS_ADD
TRIBUNAL_FUNCTION(tanh_approx, __tanhf)
#endif
TRIBUNAL_FUNCTION(floor, floorf)
TRIBUNAL_FUNCTION(ceil, ceilf)
TRIBUNAL_FUNCTION(rint, rintf)
TRIBUNAL_FUNCTION(trunc, truncf)
#undef TRIBUNAL_FUNCTION

// Operators; comparisons of pairs tell whether both hold.
#define TRIBUNAL_OPERATOR(operator_, assign, scalar, pair)                                                     \
    TRIBUNAL_DEVICE TRIBUNAL_HALF operator_(TRIBUNAL_HALF a, TRIBUNAL_HALF b) { return scalar(a, b); }         \
    TRIBUNAL_DEVICE TRIBUNAL_PAIR operator_(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b) { return pair(a, b); }           \
    TRIBUNAL_DEVICE TRIBUNAL_HALF &assign(TRIBUNAL_HALF &a, TRIBUNAL_HALF b) { return a = scalar(a, b); }      \
    TRIBUNAL_DEVICE TRIBUNAL_PAIR &assign(TRIBUNAL_PAIR &a, TRIBUNAL_PAIR b) { return a = pair(a, b); }
TRIBUNAL_OPERATOR(operator+, operator+=, __hadd, __hadd2)
TRIBUNAL_OPERATOR(operator-, operator-=, __hsub, __hsub2)
TRIBUNAL_OPERATOR(operator*, operator*=, __hmul, __hmul2)
TRIBUNAL_OPERATOR(operator/, operator/=, __hdiv, __h2div)
#undef TRIBUNAL_OPERATOR
#define TRIBUNAL_OPERATOR(operator_, name)                                                                     \
    TRIBUNAL_DEVICE bool operator_(TRIBUNAL_HALF a, TRIBUNAL_HALF b) { return __h##name(a, b); }               \
    TRIBUNAL_DEVICE bool operator_(TRIBUNAL_PAIR a, TRIBUNAL_PAIR b) { return __hb##name##2(a, b); }
TRIBUNAL_OPERATOR(operator==, eq)
TRIBUNAL_OPERATOR(operator!=, neu)
TRIBUNAL_OPERATOR(operator<, lt)
TRIBUNAL_OPERATOR(operator<=, le)
TRIBUNAL_OPERATOR(operator>, gt)
TRIBUNAL_OPERATOR(operator>=, ge)
#undef TRIBUNAL_OPERATOR
#define TRIBUNAL_OPERATOR(type, one, negative)                                                                 \
    TRIBUNAL_DEVICE type operator+(type a) { return a; }                                                       \
    TRIBUNAL_DEVICE type operator-(type a) { return negative(a); }                                             \
    TRIBUNAL_DEVICE type &operator++(type &a) { return a += one; }                                             \
    TRIBUNAL_DEVICE type &operator--(type &a) { return a -= one; }                                             \
    TRIBUNAL_DEVICE type operator++(type &a, int) {                                                            \
        type before = a;                                                                                       \
        ++a;                                                                                                   \
        return before;                                                                                         \
    }                                                                                                          \
    TRIBUNAL_DEVICE type operator--(type &a, int) {                                                            \
        type before = a;                                                                                       \
        --a;                                                                                                   \
        return before;                                                                                         \
    }
TRIBUNAL_OPERATOR(TRIBUNAL_HALF, TRIBUNAL_HALF(TRIBUNAL_RAW{TRIBUNAL_ONE}), __hneg)
TRIBUNAL_OPERATOR(TRIBUNAL_PAIR, (TRIBUNAL_PAIR(TRIBUNAL_RAW2{TRIBUNAL_ONE, TRIBUNAL_ONE})), __hneg2)
#undef TRIBUNAL_OPERATOR

// Shuffles, loads and stores: those of the bits.
#define TRIBUNAL_SHUFFLE(name, number)                                                                         \
    TRIBUNAL_DEVICE TRIBUNAL_HALF name(unsigned int mask, TRIBUNAL_HALF a, number lane, int width = 32) {      \
        unsigned int bits = name(mask, (unsigned int)a.tribunal_bits, lane, width);                            \
        return TRIBUNAL_NAMED(__ushort_as_, )((unsigned short)bits);                                           \
    }                                                                                                          \
    TRIBUNAL_DEVICE TRIBUNAL_PAIR name(unsigned int mask, TRIBUNAL_PAIR a, number lane, int width = 32) {      \
        return __builtin_bit_cast(TRIBUNAL_PAIR, name(mask, tribunal_pair(a), lane, width));                   \
    }
TRIBUNAL_SHUFFLE(__shfl_sync, int)
TRIBUNAL_SHUFFLE(__shfl_up_sync, unsigned int)
TRIBUNAL_SHUFFLE(__shfl_down_sync, unsigned int)
TRIBUNAL_SHUFFLE(__shfl_xor_sync, int)
#undef TRIBUNAL_SHUFFLE
#define TRIBUNAL_LOAD(name, type, bits)                                                                        \
    TRIBUNAL_DEVICE type name(const type *p) { return __builtin_bit_cast(type, name((const bits *)p)); }
#define TRIBUNAL_STORE(name, type, bits)                                                                       \
    TRIBUNAL_DEVICE void name(type *p, type value) { name((bits *)p, __builtin_bit_cast(bits, value)); }
#define TRIBUNAL_WIDTHS(make, name)                                                                            \
    make(name, TRIBUNAL_HALF, unsigned short) make(name, TRIBUNAL_PAIR, unsigned int)
TRIBUNAL_WIDTHS(TRIBUNAL_LOAD, __ldg)
TRIBUNAL_WIDTHS(TRIBUNAL_LOAD, __ldcg)
TRIBUNAL_WIDTHS(TRIBUNAL_LOAD, __ldca)
TRIBUNAL_WIDTHS(TRIBUNAL_LOAD, __ldcs)
TRIBUNAL_WIDTHS(TRIBUNAL_LOAD, __ldlu)
TRIBUNAL_WIDTHS(TRIBUNAL_LOAD, __ldcv)
TRIBUNAL_WIDTHS(TRIBUNAL_STORE, __stwb)
TRIBUNAL_WIDTHS(TRIBUNAL_STORE, __stcg)
TRIBUNAL_WIDTHS(TRIBUNAL_STORE, __stcs)
TRIBUNAL_WIDTHS(TRIBUNAL_STORE, __stwt)
#undef TRIBUNAL_LOAD
#undef TRIBUNAL_STORE
#undef TRIBUNAL_WIDTHS

#undef TRIBUNAL_HALF
#undef TRIBUNAL_PAIR
#undef TRIBUNAL_RAW
#undef TRIBUNAL_RAW2
#undef TRIBUNAL_TYPE
#undef TRIBUNAL_ONE
#undef TRIBUNAL_HAS_ADD
#undef TRIBUNAL_NAMED
#undef TRIBUNAL_TWICE

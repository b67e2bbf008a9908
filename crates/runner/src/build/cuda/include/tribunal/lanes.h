// Words of two or four numbers, each by itself.
#pragma once

TRIBUNAL_BOTH constexpr int tribunal_clamp(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

// Of x and y of each lane, which are `type`; `most` is the largest of the type.
#define TRIBUNAL_WORD(name, bits, type, expression)                                                            \
    TRIBUNAL_DEVICE unsigned int name(unsigned int a, unsigned int b) {                                        \
        constexpr int most = (type)-1 < 0 ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;                           \
        unsigned int result = 0;                                                                               \
        _Pragma("unroll") for (int i = 0; i < 32; i += bits) {                                                 \
            int x = (type)(a >> i), y = (type)(b >> i);                                                        \
            result |= ((unsigned int)(expression) & (0xffffffffu >> (32 - bits))) << i;                        \
        }                                                                                                      \
        (void)most;                                                                                            \
        return result;                                                                                         \
    }
#define TRIBUNAL_SIGNED(name, expression)                                                                      \
    TRIBUNAL_WORD(name##2, 16, short, expression)                                                              \
    TRIBUNAL_WORD(name##4, 8, signed char, expression)
#define TRIBUNAL_UNSIGNED(name, expression)                                                                    \
    TRIBUNAL_WORD(name##2, 16, unsigned short, expression)                                                     \
    TRIBUNAL_WORD(name##4, 8, unsigned char, expression)
TRIBUNAL_UNSIGNED(__vadd, x + y)
TRIBUNAL_SIGNED(__vaddss, tribunal_clamp(x + y, -most - 1, most))
TRIBUNAL_UNSIGNED(__vaddus, tribunal_clamp(x + y, 0, most))
TRIBUNAL_UNSIGNED(__vsub, x - y)
TRIBUNAL_SIGNED(__vsubss, tribunal_clamp(x - y, -most - 1, most))
TRIBUNAL_UNSIGNED(__vsubus, tribunal_clamp(x - y, 0, most))
TRIBUNAL_SIGNED(__vabsdiffs, x < y ? y - x : x - y)
TRIBUNAL_UNSIGNED(__vabsdiffu, x < y ? y - x : x - y)
// Rounded up, and down.
TRIBUNAL_SIGNED(__vavgs, (x + y + (x + y >= 0)) >> 1)
TRIBUNAL_UNSIGNED(__vavgu, (x + y + 1) >> 1)
TRIBUNAL_UNSIGNED(__vhaddu, (x + y) >> 1)
TRIBUNAL_SIGNED(__vmaxs, x < y ? y : x)
TRIBUNAL_UNSIGNED(__vmaxu, x < y ? y : x)
TRIBUNAL_SIGNED(__vmins, x < y ? x : y)
TRIBUNAL_UNSIGNED(__vminu, x < y ? x : y)
// All ones where it holds (cmp), or one (set).
#define TRIBUNAL_COMPARE(name, op)                                                                             \
    TRIBUNAL_SIGNED(__vcmp##name##s, x op y ? -1 : 0)                                                          \
    TRIBUNAL_UNSIGNED(__vcmp##name##u, x op y ? -1 : 0)                                                        \
    TRIBUNAL_SIGNED(__vset##name##s, x op y)                                                                   \
    TRIBUNAL_UNSIGNED(__vset##name##u, x op y)
TRIBUNAL_COMPARE(ge, >=)
TRIBUNAL_COMPARE(gt, >)
TRIBUNAL_COMPARE(le, <=)
TRIBUNAL_COMPARE(lt, <)
#undef TRIBUNAL_COMPARE
TRIBUNAL_UNSIGNED(__vcmpeq, x == y ? -1 : 0)
TRIBUNAL_UNSIGNED(__vcmpne, x != y ? -1 : 0)
TRIBUNAL_UNSIGNED(__vseteq, x == y)
TRIBUNAL_UNSIGNED(__vsetne, x != y)
TRIBUNAL_SIGNED(tribunal_abs, x < 0 ? y - x : x)
TRIBUNAL_SIGNED(tribunal_absss, tribunal_clamp(x < 0 ? y - x : x, 0, most))
#undef TRIBUNAL_SIGNED
#undef TRIBUNAL_UNSIGNED
#undef TRIBUNAL_WORD

#define TRIBUNAL_LANES(n, last)                                                                                \
    TRIBUNAL_DEVICE unsigned int __vabs##n(unsigned int a) { return tribunal_abs##n(a, 0); }                   \
    TRIBUNAL_DEVICE unsigned int __vabsss##n(unsigned int a) { return tribunal_absss##n(a, 0); }               \
    TRIBUNAL_DEVICE unsigned int __vneg##n(unsigned int a) { return __vsub##n(0, a); }                         \
    TRIBUNAL_DEVICE unsigned int __vnegss##n(unsigned int a) { return __vsubss##n(0, a); }                     \
    TRIBUNAL_DEVICE unsigned int tribunal_sum##n(unsigned int a) {                                             \
        unsigned int sum = 0;                                                                                  \
        _Pragma("unroll") for (int i = 0; i < 32; i += 32 / n) sum += a >> i & last;                           \
        return sum;                                                                                            \
    }                                                                                                          \
    TRIBUNAL_DEVICE unsigned int __vsads##n(unsigned int a, unsigned int b) {                                  \
        return tribunal_sum##n(__vabsdiffs##n(a, b));                                                          \
    }                                                                                                          \
    TRIBUNAL_DEVICE unsigned int __vsadu##n(unsigned int a, unsigned int b) {                                  \
        return tribunal_sum##n(__vabsdiffu##n(a, b));                                                          \
    }
TRIBUNAL_LANES(2, 0xffffu)
TRIBUNAL_LANES(4, 0xffu)
#undef TRIBUNAL_LANES

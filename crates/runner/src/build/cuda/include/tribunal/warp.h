// What lanes of a warp tell each other: shuffles, votes, matches, reductions.
#pragma once

// The third operand of shfl: the last lane of a segment in its low five bits, the segment's mask above.
#define TRIBUNAL_SEGMENT(width) ((32 - (width)) << 8)

#define TRIBUNAL_SHUFFLE(name, mode, number, last)                                                             \
    TRIBUNAL_DEVICE int name(unsigned int mask, int value, number lane, int width = 32) {                      \
        return __nvvm_shfl_sync_##mode##_i32(mask, value, (int)lane, TRIBUNAL_SEGMENT(width) | last);          \
    }                                                                                                          \
    TRIBUNAL_DEVICE unsigned int name(unsigned int mask, unsigned int value, number lane, int width = 32) {    \
        return (unsigned int)name(mask, (int)value, lane, width);                                              \
    }                                                                                                          \
    TRIBUNAL_DEVICE float name(unsigned int mask, float value, number lane, int width = 32) {                  \
        return __int_as_float(name(mask, __float_as_int(value), lane, width));                                 \
    }                                                                                                          \
    TRIBUNAL_DEVICE long long name(unsigned int mask, long long value, number lane, int width = 32) {          \
        unsigned int low = name(mask, (unsigned int)value, lane, width);                                       \
        unsigned int high = name(mask, (unsigned int)(value >> 32), lane, width);                              \
        return (long long)((unsigned long long)high << 32 | low);                                              \
    }                                                                                                          \
    TRIBUNAL_DEVICE unsigned long long name(                                                                   \
        unsigned int mask, unsigned long long value, number lane, int width = 32) {                            \
        return (unsigned long long)name(mask, (long long)value, lane, width);                                  \
    }                                                                                                          \
    TRIBUNAL_DEVICE long name(unsigned int mask, long value, number lane, int width = 32) {                    \
        return (long)name(mask, (long long)value, lane, width);                                                \
    }                                                                                                          \
    TRIBUNAL_DEVICE unsigned long name(unsigned int mask, unsigned long value, number lane, int width = 32) {  \
        return (unsigned long)name(mask, (long long)value, lane, width);                                       \
    }                                                                                                          \
    TRIBUNAL_DEVICE double name(unsigned int mask, double value, number lane, int width = 32) {                \
        return __longlong_as_double(name(mask, __double_as_longlong(value), lane, width));                     \
    }
TRIBUNAL_SHUFFLE(__shfl_sync, idx, int, 31)
TRIBUNAL_SHUFFLE(__shfl_up_sync, up, unsigned int, 0)
TRIBUNAL_SHUFFLE(__shfl_down_sync, down, unsigned int, 31)
TRIBUNAL_SHUFFLE(__shfl_xor_sync, bfly, int, 31)
#undef TRIBUNAL_SHUFFLE
#undef TRIBUNAL_SEGMENT

TRIBUNAL_DEVICE int __all_sync(unsigned int mask, int predicate) { return __nvvm_vote_all_sync(mask, predicate); }
TRIBUNAL_DEVICE int __any_sync(unsigned int mask, int predicate) { return __nvvm_vote_any_sync(mask, predicate); }
TRIBUNAL_DEVICE int __uni_sync(unsigned int mask, int predicate) { return __nvvm_vote_uni_sync(mask, predicate); }
TRIBUNAL_DEVICE unsigned int __ballot_sync(unsigned int mask, int predicate) {
    return __nvvm_vote_ballot_sync(mask, predicate);
}
TRIBUNAL_DEVICE unsigned int __activemask() {
    unsigned int mask;
    __asm__ volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}

#define TRIBUNAL_MATCH(type, width, letter, bits)                                                              \
    TRIBUNAL_DEVICE unsigned int __match_any_sync(unsigned int mask, type value) {                             \
        unsigned int lanes;                                                                                    \
        __asm__ volatile("match.any.sync." width " %0, %1, %2;" : "=r"(lanes) : letter(bits), "r"(mask));      \
        return lanes;                                                                                          \
    }                                                                                                          \
    TRIBUNAL_DEVICE unsigned int __match_all_sync(unsigned int mask, type value, int *predicate) {             \
        unsigned int lanes;                                                                                    \
        __asm__ volatile("{\n\t.reg .pred same;\n\tmatch.all.sync." width " %0|same, %2, %3;\n\t"              \
                         "selp.s32 %1, 1, 0, same;\n\t}"                                                       \
                         : "=r"(lanes), "=r"(*predicate)                                                       \
                         : letter(bits), "r"(mask));                                                           \
        return lanes;                                                                                          \
    }
TRIBUNAL_MATCH(int, "b32", "r", value)
TRIBUNAL_MATCH(unsigned int, "b32", "r", value)
TRIBUNAL_MATCH(float, "b32", "r", __float_as_uint(value))
TRIBUNAL_MATCH(long long, "b64", "l", value)
TRIBUNAL_MATCH(unsigned long long, "b64", "l", value)
TRIBUNAL_MATCH(long, "b64", "l", value)
TRIBUNAL_MATCH(unsigned long, "b64", "l", value)
TRIBUNAL_MATCH(double, "b64", "l", __double_as_longlong(value))
#undef TRIBUNAL_MATCH

#define TRIBUNAL_REDUCE(name, type, instruction)                                                               \
    TRIBUNAL_DEVICE type name(unsigned int mask, type value) {                                                 \
        type result;                                                                                           \
        __asm__ volatile(instruction " %0, %1, %2;" : "=r"(result) : "r"(value), "r"(mask));                   \
        return result;                                                                                         \
    }
TRIBUNAL_REDUCE(__reduce_add_sync, unsigned int, "redux.sync.add.u32")
TRIBUNAL_REDUCE(__reduce_add_sync, int, "redux.sync.add.s32")
TRIBUNAL_REDUCE(__reduce_min_sync, unsigned int, "redux.sync.min.u32")
TRIBUNAL_REDUCE(__reduce_min_sync, int, "redux.sync.min.s32")
TRIBUNAL_REDUCE(__reduce_max_sync, unsigned int, "redux.sync.max.u32")
TRIBUNAL_REDUCE(__reduce_max_sync, int, "redux.sync.max.s32")
TRIBUNAL_REDUCE(__reduce_and_sync, unsigned int, "redux.sync.and.b32")
TRIBUNAL_REDUCE(__reduce_or_sync, unsigned int, "redux.sync.or.b32")
TRIBUNAL_REDUCE(__reduce_xor_sync, unsigned int, "redux.sync.xor.b32")
#undef TRIBUNAL_REDUCE

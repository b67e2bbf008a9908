// Pairs of a key and a value, memory of a type that nothing constructs, nothing, and the bits of numbers.
#pragma once
#include "../cuda_fp16.h"
#include "../type_traits"

namespace cub {

struct NullType {};

template <class T> struct Uninitialized {
    alignas(T) unsigned char tribunal_bytes[sizeof(T)];
    TRIBUNAL_BOTH T &Alias() { return reinterpret_cast<T &>(*this); }
};

template <class K, class V> struct KeyValuePair {
    typedef K Key;
    typedef V Value;
    Key key;
    Value value;
    KeyValuePair() = default;
    TRIBUNAL_BOTH KeyValuePair(const Key &key, const Value &value) : key(key), value(value) {}
    TRIBUNAL_MEMBER bool operator==(const KeyValuePair &other) const { return key == other.key && value == other.value; }
    TRIBUNAL_MEMBER bool operator!=(const KeyValuePair &other) const { return !(*this == other); }
};

template <size_t Bytes> struct tribunal_unsigned;
template <> struct tribunal_unsigned<1> { typedef unsigned char type; };
template <> struct tribunal_unsigned<2> { typedef unsigned short type; };
template <> struct tribunal_unsigned<4> { typedef unsigned int type; };
template <> struct tribunal_unsigned<8> { typedef unsigned long long type; };

// The bits of a number. `TwiddleIn` makes of them some that are ordered as the numbers are, -0 before 0 and each NaN beyond an infinity, and
// `TwiddleOut` the former of these. What `TwiddleIn` puts first and last are `LOWEST_KEY` and `MAX_KEY`.
template <class T> struct NumericTraits {
    typedef typename tribunal_unsigned<sizeof(T)>::type UnsignedBits;
    static constexpr bool PRIMITIVE = true, NULL_TYPE = false;

  private:
    static constexpr bool FLOATING = !std::is_integral<T>::value, SIGNED = !FLOATING && std::is_signed<T>::value;
    static constexpr UnsignedBits ALL = (UnsignedBits)~0ull, HIGH_BIT = (UnsignedBits)(1ull << (8 * sizeof(T) - 1));
    // The largest that is finite, of a half, a bfloat16, a float or a double.
    static constexpr UnsignedBits FINITE = (UnsignedBits)(sizeof(T) == 8   ? 0x7fefffffffffffffull
                                                          : sizeof(T) == 4 ? 0x7f7fffffull
                                                          : std::is_same<T, __half>::value ? 0x7bffull
                                                                                           : 0x7f7full);
    static TRIBUNAL_BOTH T of(UnsignedBits bits) {
        T number;
        __builtin_memcpy(&number, &bits, sizeof(T));
        return number;
    }

  public:
    static constexpr UnsignedBits LOWEST_KEY = FLOATING ? ALL : SIGNED ? HIGH_BIT : (UnsignedBits)0;
    static constexpr UnsignedBits MAX_KEY = FLOATING || SIGNED ? (UnsignedBits)(ALL ^ HIGH_BIT) : ALL;
    static TRIBUNAL_BOTH UnsignedBits TwiddleIn(UnsignedBits key) {
        return key ^ (FLOATING && (key & HIGH_BIT) ? ALL : FLOATING || SIGNED ? HIGH_BIT : (UnsignedBits)0);
    }
    static TRIBUNAL_BOTH UnsignedBits TwiddleOut(UnsignedBits key) {
        return key ^ (FLOATING && !(key & HIGH_BIT) ? ALL : FLOATING || SIGNED ? HIGH_BIT : (UnsignedBits)0);
    }
    static TRIBUNAL_BOTH T Max() { return of(FLOATING ? FINITE : MAX_KEY); }
    static TRIBUNAL_BOTH T Lowest() { return of(FLOATING ? (UnsignedBits)(FINITE | HIGH_BIT) : LOWEST_KEY); }
};
template <class T> struct Traits : NumericTraits<std::remove_cv_t<T>> {};

}

// Pairs of a key and a value, memory of a type that nothing constructs, and nothing.
#pragma once

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

}

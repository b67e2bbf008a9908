// Pairs of a key and a value, and nothing.
#pragma once

namespace cub {

struct NullType {};

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

// What kernels take of the standard library: views of memory, values that may not be there, sums and scans of a thread, complex numbers, and what types are.
#include <bit>
#include <cuda/cmath>
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/concepts>
#include <cuda/std/functional>
#include <cuda/std/iterator>
#include <cuda/std/numeric>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <complex>
#include <concepts>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>

namespace lib = cuda::std;

static_assert(std::popcount(7u) == 3 && std::bit_cast<unsigned int>(1.0f) == 0x3F800000u && std::bit_ceil(5u) == 8);

static_assert(lib::same_as<int, int> && !lib::same_as<int, long> && lib::convertible_to<int, float> && !lib::convertible_to<int *, int>);
static_assert(lib::integral<char> && !lib::integral<float> && lib::signed_integral<int> && lib::unsigned_integral<unsigned char>);
static_assert(lib::floating_point<double> && !lib::floating_point<int> && !lib::signed_integral<unsigned int>);
struct Base {};
struct Derived : Base {};
struct Hidden : private Base {};
static_assert(lib::derived_from<Derived, Base> && !lib::derived_from<Base, Derived> && !lib::derived_from<Hidden, Base>);
static_assert(lib::invocable<lib::plus<int>, int, int> && !lib::invocable<lib::plus<int>, int> && lib::predicate<lib::less<int>, int, int>);
static_assert(!lib::predicate<int, int> && lib::equality_comparable<int> && !lib::equality_comparable<Base> && lib::totally_ordered<float>);
static_assert(lib::copy_constructible<int> && lib::default_initializable<float> && lib::constructible_from<float, int>);

// Of a view whose size is known when it runs nobody knows whether it has as many.
static_assert(lib::convertible_to<lib::span<int, 4>, lib::span<int>> && !lib::convertible_to<lib::span<int>, lib::span<int, 4>>);
static_assert(lib::constructible_from<lib::span<int, 4>, lib::span<int>> && !lib::constructible_from<lib::span<int, 3>, lib::span<int, 4>>);

static_assert(cuda::ceil_div(7, 2) == 4 && cuda::ceil_div(8u, 2) == 4 && cuda::ceil_div(0, 3) == 0 && cuda::ceil_div(0xFFFFFFFFu, 2u) == 0x80000000u);
static_assert(cuda::round_up(13, 8) == 16 && cuda::round_up(16, 8) == 16 && cuda::round_down(13, 8) == 8);
static_assert(cuda::is_power_of_two(64) && !cuda::is_power_of_two(0) && !cuda::is_power_of_two(6u));
static_assert(cuda::next_power_of_two(5) == 8 && cuda::next_power_of_two(8u) == 8 && cuda::prev_power_of_two(9) == 8);
static_assert(cuda::ilog2(1) == 0 && cuda::ilog2(1023) == 9 && cuda::ceil_ilog2(1023) == 10 && cuda::ceil_ilog2(1024) == 10 && cuda::ilog10(999) == 2 && cuda::ilog10(1000u) == 3);
static_assert(cuda::uabs(-2147483647 - 1) == 2147483648u && cuda::uabs((signed char)-128) == 128 && cuda::uabs(5) == 5u);
static_assert(cuda::mul_hi(0x80000000u, 4u) == 2 && cuda::mul_hi(-1, 2) == -1 && cuda::mul_hi(1ull << 63, 6ull) == 3 && cuda::isqrt(99) == 9 && cuda::isqrt(100ull) == 10);
constexpr lib::pair<int, float> pair_of(1, 2.0f);
constexpr lib::tuple<int, int> tuple_of(3, 4);
constexpr lib::array<int, 3> array_of{5, 6, 7};
static_assert(pair_of.first == 1 && lib::get<1>(tuple_of) == 4 && array_of[2] == 7 && lib::is_same_v<lib::invoke_result_t<lib::plus<>, int, float>, float>);

static_assert(lib::gcd(12, -18) == 6 && lib::gcd(0, 0u) == 0 && lib::gcd(17ll, 0) == 17 && lib::lcm(4, 6) == 12 && lib::lcm(0, 3) == 0 && lib::lcm(-4, 6) == 12);
static_assert(lib::midpoint(1, 4) == 2 && lib::midpoint(4, 1) == 3 && lib::midpoint(2147483647, 2147483645) == 2147483646);
static_assert(lib::midpoint(-2147483647 - 1, 2147483647) == -1 && lib::midpoint((unsigned char)250, (unsigned char)255) == 252);
static_assert(lib::midpoint(1.0f, 2.0f) == 1.5f && lib::midpoint(3e38f, 3e38f) == 3e38f);

static_assert(lib::dynamic_extent == size_t(-1) && lib::span<int, 4>::extent == 4 && sizeof(lib::span<int, 4>) == sizeof(int *));
static_assert(lib::is_same_v<decltype(lib::declval<lib::span<int, 4>>().first<2>()), lib::span<int, 2>>);
static_assert(lib::is_same_v<decltype(lib::declval<lib::span<int, 8>>().subspan<2>()), lib::span<int, 6>>);
static_assert(lib::is_same_v<decltype(lib::declval<lib::span<int>>().subspan<2, 3>()), lib::span<int, 3>>);
static_assert(lib::is_convertible_v<lib::span<int>, lib::span<const int>> && !lib::is_convertible_v<lib::span<const int>, lib::span<int>>);
static_assert(!lib::is_constructible_v<lib::span<int, 4>, lib::array<int, 3> &> && !lib::is_convertible_v<lib::span<Derived>, lib::span<Base>>);

static_assert(lib::is_trivially_copyable_v<lib::optional<float>> && !lib::optional<int>() && *lib::optional<int>(3) == 3);
static_assert(lib::optional<int>(3).value_or(4) == 3 && lib::optional<int>(lib::nullopt).value_or(4) == 4);
static_assert(lib::optional<int>() < 1 && lib::optional<int>(2) != lib::nullopt && lib::optional<int>(2) == 2 && lib::optional<int>() == lib::nullopt);

static_assert(alignof(lib::complex<float>) == 8 && alignof(lib::complex<double>) == 16 && sizeof(lib::complex<float>) == 8);
static_assert(lib::complex<float>(1, 2).imag() == 2 && lib::complex<float>(3) == 3.0f);

__device__ int total(std::span<const int> of) {
    int sum = 0;
    for (int x : of) sum += x;
    return sum;
}
__device__ int first_of_four(lib::span<const int, 4> of) { return of.front(); }

// 16 numbers for each of 32 threads, of 8 numbers in a row.
extern "C" __global__ void views(const int *in, int *out) {
    int own[8];
    lib::array<int, 8> mine;
    lib::span<const int> all(in, 8 * blockDim.x);
    lib::span<const int> row = all.subspan(8 * threadIdx.x, 8);
    lib::span<int> result(out + 16 * threadIdx.x, 16);
    for (int i = 0; i < 8; i++) own[i] = mine[7 - i] = row[i];
    lib::span fixed(own), whole(mine);
    lib::span part(in, 8);
    lib::span<int> of_array(mine);
    lib::array list{1, 2};
    static_assert(decltype(fixed)::extent == 8 && decltype(whole)::extent == 8 && decltype(part)::extent == lib::dynamic_extent);
    result[0] = total(row);
    result[1] = total(own) - total(mine) + total({in, 0});
    result[2] = total(row.first(3));
    result[3] = total(row.last(2));
    result[4] = total(fixed.first<4>()) * 100 + total(fixed.last<1>());
    result[5] = total(row.subspan(5));
    result[6] = total(fixed.subspan<2, 3>());
    result[7] = first_of_four(fixed.subspan<4>());
    result[8] = *of_array.begin() * 100 + of_array.back();
    result[9] = (int)(row.size_bytes() + row.empty() + all.first(0).empty() * 100);
    result[10] = *row.rbegin() * 100 + *(row.rend() - 1);
    result[11] = *lib::next(row.begin(), 2) * 100 + *lib::prev(row.end());
    auto at = row.begin();
    lib::advance(at, 5);
    result[12] = (int)lib::distance(at, row.end()) * 100 + (int)lib::size(own) * 10 + (int)lib::ssize(mine);
    result[13] = (lib::data(mine) == mine.begin()) + (lib::begin(own) == own) * 10 + (lib::cend(own) - lib::end(own));
    result[14] = 0;
    for (auto i = lib::rbegin(own); i != lib::rend(own); ++i) result[14] = result[14] * 2 + *i;
    result[15] = (int)lib::as_bytes(row).size() + (int)lib::to_integer<unsigned char>(lib::as_bytes(row)[0]) * 1000;
    lib::as_writable_bytes(lib::span(own))[0] = lib::byte{1};
    if ((own[0] & 0xFF) != 1 || whole.size() + part.size() + list.size() != 18) result[15] = -1;
}

// Sums and scans of 8 numbers, for each of 32 threads, and what they give one by one.
extern "C" __global__ void sums(const int *in, int *out) {
    const int *first = in + 8 * threadIdx.x, *last = first + 8;
    int *mine = out + 72 * threadIdx.x;
    mine[0] = lib::accumulate(first, last, 5);
    mine[1] = lib::accumulate(first, last, -100, [](int a, int b) { return b > a ? b : a; });
    mine[2] = lib::reduce(first, last);
    mine[3] = lib::inner_product(first, last, in, 1);
    mine[4] = lib::transform_reduce(first, last, 0, lib::plus<>(), [](int x) { return x * x; });
    mine[5] = lib::transform_reduce(first, last, in, 0);
    mine[6] = (int)lib::gcd(first[0], first[1]);
    mine[7] = lib::midpoint(first[0], first[1]);
    lib::iota(mine + 8, mine + 16, first[0]);
    lib::inclusive_scan(first, last, mine + 16);
    lib::exclusive_scan(first, last, mine + 24, 7);
    lib::partial_sum(first, last, mine + 32);
    lib::adjacent_difference(first, last, mine + 40);
    lib::inclusive_scan(first, last, mine + 48, [](int a, int b) { return b > a ? b : a; });
    for (int i = 0; i < 8; i++) mine[56 + i] = mine[64 + i] = first[i];
    std::exclusive_scan(mine + 56, mine + 64, mine + 56, 0);
    lib::transform_inclusive_scan(mine + 64, mine + 72, mine + 64, lib::plus<>(), [](int x) { return 2 * x; });
}

// Not bytes alone: counts how many there are of it.
struct Counted {
    int *alive, value;
    __device__ Counted(int *alive, int value) : alive(alive), value(value) { ++*alive; }
    __device__ Counted(const Counted &other) : alive(other.alive), value(other.value) { ++*alive; }
    __device__ Counted &operator=(const Counted &other) {
        value = other.value;
        return *this;
    }
    __device__ ~Counted() { --*alive; }
};

__device__ lib::optional<int> even(int x) {
    if (x % 2 != 0) return lib::nullopt;
    return x / 2;
}

// 10 numbers for each of 32 threads.
extern "C" __global__ void maybe(const int *in, int *out) {
    int value = in[threadIdx.x], *mine = out + 10 * threadIdx.x, alive = 0;
    lib::optional<int> half = even(value), none;
    mine[0] = half.has_value();
    mine[1] = half.value_or(1000);
    mine[2] = half ? *half : -1000;
    mine[3] = half.transform([](int x) { return x + 1; }).value_or(2000);
    mine[4] = half.and_then(even).value_or(3000);
    mine[5] = (half < 0) + (half == none) * 10 + (half != value / 2) * 100;
    lib::optional<long long> wide = half;
    mine[6] = (int)wide.value_or(7);
    half = 3;
    none.swap(half);
    mine[7] = none.value() * 10 + half.has_value();
    // No number that is 0.
    none = {};
    mine[7] += none.has_value() * 100;
    {
        lib::optional<Counted> one(lib::in_place, &alive, value), two(one), three;
        three = two;
        two.reset();
        two = Counted(&alive, 4);
        three.emplace(&alive, value + two->value);
        one = lib::nullopt;
        mine[8] = alive * 1000 + three->value;
    }
    mine[9] = alive;
}

template <class T> __device__ void complexes(const T *in, T *out) {
    typedef lib::complex<T> C;
    C a(in[4 * threadIdx.x], in[4 * threadIdx.x + 1]), b(in[4 * threadIdx.x + 2], in[4 * threadIdx.x + 3]);
    C *mine = reinterpret_cast<C *>(out) + 16 * threadIdx.x;
    mine[0] = a + b;
    mine[1] = a - b;
    mine[2] = a * b;
    mine[3] = a / b;
    mine[4] = T(2) * a + b * T(3) - T(1);
    mine[5] = C(lib::abs(a), lib::arg(a));
    mine[6] = C(lib::norm(a), T(a == b) + T(a != a) * 2);
    mine[7] = lib::conj(-a);
    mine[8] = lib::polar(lib::abs(a), lib::arg(a));
    mine[9] = std::exp(a);
    mine[10] = std::log(a);
    mine[11] = std::sqrt(a);
    mine[12] = threadIdx.x % 2 ? std::pow(a, 2) : std::pow(a, C(2));
    mine[13] = std::sin(a) * std::sin(a) + std::cos(a) * std::cos(a);
    C sum = a;
    sum += b;
    sum *= a;
    sum -= T(1);
    sum /= b;
    mine[14] = sum;
    lib::complex<double> wide = a;
    lib::complex<float> narrow(wide);
    mine[15] = C(T(narrow.real()), T(imag(wide)));
}
extern "C" __global__ void complexes_f32(const float *in, float *out) { complexes(in, out); }
extern "C" __global__ void complexes_f64(const double *in, double *out) { complexes(in, out); }

// 10 numbers for each of 32 threads, of two that are at least 1.
extern "C" __global__ void integers(const int *in, unsigned int *out) {
    int a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
    unsigned int *mine = out + 10 * threadIdx.x;
    mine[0] = cuda::ceil_div(a, b);
    mine[1] = cuda::round_up(a, b);
    mine[2] = cuda::round_down(a, b);
    mine[3] = cuda::is_power_of_two(a);
    mine[4] = cuda::next_power_of_two(a);
    mine[5] = cuda::prev_power_of_two(a);
    mine[6] = cuda::ilog2(a) * 100 + cuda::ceil_ilog2(a);
    mine[7] = cuda::ilog10(a);
    mine[8] = cuda::isqrt(a);
    mine[9] = cuda::uabs(-a);
}

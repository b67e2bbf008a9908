#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNED _Alignas(256)

static int problems;
static int repeated = -1;  /* -1: nothing to repeat, 1: every answer was repeated */

static void problem(const char *call, const char *what) {
    problems++;
    printf("%s: %s\n", call, what);
}

static int finish(void) {
    if (repeated == 1 && !problems)
        problem("all calls", "every answer is the one that was judged");
    puts(problems ? "REPRODUCED" : "not reproduced");
    return problems ? 1 : 0;
}

/* Reads an array that is too long to stand in this file. */
static inline void read_array(const char *file, void *data, size_t bytes) {
    FILE *stream = fopen(file, "rb");
    if (!stream || fread(data, 1, bytes, stream) != bytes) {
        fprintf(stderr, "%s: cannot be read; run this in its own folder\n", file);
        exit(2);
    }
    fclose(stream);
}

static inline double half_to_double(uint16_t bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                 : exponent ? ldexp(1024 + mantissa, exponent - 25)
                            : ldexp(mantissa, -24);
    return bits >> 15 ? -value : value;
}

static inline double element(const DLTensor *tensor, int64_t index) {
    const void *data = tensor->data;
    if (tensor->dtype.code == 0)
        return tensor->dtype.bits == 32 ? ((const int32_t *)data)[index] : (double)((const int64_t *)data)[index];
    if (tensor->dtype.code == 4) {
        uint32_t bits = (uint32_t)((const uint16_t *)data)[index] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (tensor->dtype.bits == 16)
        return half_to_double(((const uint16_t *)data)[index]);
    return tensor->dtype.bits == 32 ? ((const float *)data)[index] : ((const double *)data)[index];
}

/* Infinite where one is NaN or infinite and the other is not. */
static inline double error_in_budgets(double actual, double expected, double budget) {
    if (isnan(actual) || isnan(expected))
        return isnan(actual) && isnan(expected) ? 0 : INFINITY;
    if (isinf(actual) || isinf(expected))
        return actual == expected ? 0 : INFINITY;
    return actual == expected ? 0 : fabs(actual - expected) / budget;
}

static inline void check(const char *call, const char *name, const DLTensor *tensor, int64_t length,
                         const double *expected, const double *budget) {
    double used = 0;
    int64_t worst = 0;
    for (int64_t i = 0; i < length; i++) {
        double error = error_in_budgets(element(tensor, i), expected[i], budget ? budget[i] : 0);
        if (!(error <= used)) {
            used = error;
            worst = i;
        }
    }
    printf("%s, %s: max error %.3g of its budget", call, name, used);
    if (used > 0)
        printf(" at element %lld: %.9g, should be %.9g", (long long)worst, element(tensor, worst), expected[worst]);
    puts("");
    if (!(used <= 1))
        problem(call, "over its budget");
}

static inline void repeat(const char *call, const char *name, const void *actual, const void *recorded, size_t bytes) {
    int same = memcmp(actual, recorded, bytes) == 0;
    repeated = repeated == 0 ? 0 : same;
    printf("%s, %s: %s when it was judged\n", call, name, same ? "the same as" : "not the same as");
}

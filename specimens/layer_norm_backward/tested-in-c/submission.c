/* Layer norm with double arithmetic for every dtype. The state refers to x and gamma where they lie and adds only
 * mean and rstd of each row. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t rows, cols;
    DLDataType dtype;
    const void *x, *gamma;
    double *mean, *rstd;
    double numbers[];
} Cache;

/* Element `i` of an array, widened. */
static inline double get(const void *data, DLDataType dtype, int64_t i) {
    if (dtype.code == 4) {
        uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return dtype.bits == 64 ? ((const double *)data)[i] : ((const float *)data)[i];
}

/* A double as a bfloat16: the nearest to its nearest float, ties to even. */
static uint16_t to_bfloat16(double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return narrow != narrow ? 0x7fc0 : (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline void set(void *data, DLDataType dtype, int64_t i, double value) {
    if (dtype.code == 4) ((uint16_t *)data)[i] = to_bfloat16(value);
    else if (dtype.bits == 64) ((double *)data)[i] = value;
    else ((float *)data)[i] = (float)value;
}

static int supported(DLDataType dtype) {
    return (dtype.code == 2 && (dtype.bits == 32 || dtype.bits == 64)) || (dtype.code == 4 && dtype.bits == 16);
}

static int64_t rows_of(const DLTensor *tensor) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < tensor->ndim; i++) rows *= tensor->shape[i];
    return rows;
}

int32_t tribunal_forward(tribunal_forward_args *args) {
    const DLTensor *x = args->x;
    if (!supported(x->dtype)) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "neither float32 nor float64 nor bfloat16");
        return 1;
    }
    int64_t cols = x->shape[x->ndim - 1], rows = rows_of(x);
    if (args->gamma->shape[0] != cols || args->beta->shape[0] != cols) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "gamma and beta must be as long as a row of x");
        return 1;
    }
    Cache *cache = malloc(sizeof *cache + 2 * (size_t)rows * sizeof(double));
    if (!cache) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "out of memory");
        return 1;
    }
    *cache = (Cache){rows, cols, x->dtype, x->data, args->gamma->data, cache->numbers, cache->numbers + rows};
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, squares = 0;
        for (int64_t c = 0; c < cols; c++) mean += get(x->data, x->dtype, r * cols + c);
        mean /= (double)cols;
        for (int64_t c = 0; c < cols; c++) {
            double d = get(x->data, x->dtype, r * cols + c) - mean;
            squares += d * d;
        }
        double rstd = 1 / sqrt(squares / (double)cols + args->eps);
        for (int64_t c = 0; c < cols; c++) {
            double xhat = (get(x->data, x->dtype, r * cols + c) - mean) * rstd;
            double y = get(args->gamma->data, x->dtype, c) * xhat + get(args->beta->data, x->dtype, c);
            set(args->y->data, x->dtype, r * cols + c, y);
        }
        cache->mean[r] = mean;
        cache->rstd[r] = rstd;
    }
    args->keeps_inputs = 1;
    args->cache = cache;
    return 0;
}

int32_t tribunal_backward(tribunal_backward_args *args) {
    const Cache *cache = args->cache;
    const void *dy = args->dy->data, *x = cache->x, *gamma = cache->gamma;
    const DLDataType dtype = cache->dtype;
    const int64_t cols = cache->cols;
    if (args->dy->shape[args->dy->ndim - 1] != cols || rows_of(args->dy) != cache->rows) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "dy must be shaped as x was");
        return 1;
    }
    double *dgamma = calloc(2 * (size_t)cols, sizeof(double)), *dbeta = dgamma + cols;
    if (!dgamma) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "out of memory");
        return 1;
    }
    for (int64_t r = 0; r < cache->rows; r++) {
        const double mean = cache->mean[r], rstd = cache->rstd[r];
        double sum_g = 0, sum_g_xhat = 0;
        for (int64_t c = 0; c < cols; c++) {
            double d = get(dy, dtype, r * cols + c), xhat = (get(x, dtype, r * cols + c) - mean) * rstd;
            double g = d * get(gamma, dtype, c);
            sum_g += g;
            sum_g_xhat += g * xhat;
            dgamma[c] += d * xhat;
            dbeta[c] += d;
        }
        for (int64_t c = 0; c < cols; c++) {
            double g = get(dy, dtype, r * cols + c) * get(gamma, dtype, c);
            double xhat = (get(x, dtype, r * cols + c) - mean) * rstd;
            set(args->dx->data, dtype, r * cols + c, rstd * (g - (sum_g + xhat * sum_g_xhat) / (double)cols));
        }
    }
    for (int64_t c = 0; c < cols; c++) {
        set(args->dgamma->data, dtype, c, dgamma[c]);
        set(args->dbeta->data, dtype, c, dbeta[c]);
    }
    free(dgamma);
    return 0;
}

void tribunal_release(void *state) {
    free(state);
}

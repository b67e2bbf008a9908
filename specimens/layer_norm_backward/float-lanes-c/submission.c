/* Layer norm for float32 in the order of a vector unit: eight float accumulators, and a loop for what remains. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 8 };

typedef struct {
    int64_t rows, cols;
    float *gamma, *rstd, *xhat;
    float numbers[];
} Cache;

static float add_lanes(const float *lane) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Sum of a[i] * b[i]. */
static float dot(const float *a, const float *b, int64_t n) {
    float lane[LANES] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += a[i + j] * b[i + j];
    for (; i < n; i++) rest += a[i] * b[i];
    return add_lanes(lane) + rest;
}

static float sum(const float *a, int64_t n) {
    float lane[LANES] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += a[i + j];
    for (; i < n; i++) rest += a[i];
    return add_lanes(lane) + rest;
}

static int64_t rows_of(const DLTensor *tensor) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < tensor->ndim; i++) rows *= tensor->shape[i];
    return rows;
}

int32_t tribunal_forward(tribunal_forward_args *args) {
    const DLTensor *x = args->x;
    if (x->dtype.code != 2 || x->dtype.bits != 32) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "float32 only");
        return 1;
    }
    int64_t cols = x->shape[x->ndim - 1], rows = rows_of(x);
    if (args->gamma->shape[0] != cols || args->beta->shape[0] != cols) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "gamma and beta must be as long as a row of x");
        return 1;
    }
    Cache *cache = malloc(sizeof *cache + (size_t)(rows * cols + rows + cols) * sizeof(float));
    if (!cache) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "out of memory");
        return 1;
    }
    float *numbers = cache->numbers;
    *cache = (Cache){rows, cols, numbers, numbers + cols, numbers + cols + rows};
    memcpy(cache->gamma, args->gamma->data, (size_t)cols * sizeof(float));
    const float *beta = args->beta->data;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = (const float *)x->data + r * cols;
        float *xhat = cache->xhat + r * cols, *y = (float *)args->y->data + r * cols;
        float mean = sum(row, cols) / (float)cols;
        for (int64_t c = 0; c < cols; c++) xhat[c] = row[c] - mean;
        float rstd = 1 / sqrtf(dot(xhat, xhat, cols) / (float)cols + (float)args->eps);
        for (int64_t c = 0; c < cols; c++) {
            xhat[c] *= rstd;
            y[c] = xhat[c] * cache->gamma[c] + beta[c];
        }
        cache->rstd[r] = rstd;
    }
    args->cache = cache;
    return 0;
}

int32_t tribunal_backward(tribunal_backward_args *args) {
    const Cache *cache = args->cache;
    const int64_t cols = cache->cols;
    if (args->dy->shape[args->dy->ndim - 1] != cols || rows_of(args->dy) != cache->rows) {
        snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, "dy must be shaped as x was");
        return 1;
    }
    float *dgamma = args->dgamma->data, *dbeta = args->dbeta->data;
    memset(dgamma, 0, (size_t)cols * sizeof(float));
    memset(dbeta, 0, (size_t)cols * sizeof(float));
    for (int64_t r = 0; r < cache->rows; r++) {
        const float *dy = (const float *)args->dy->data + r * cols, *xhat = cache->xhat + r * cols;
        float *dx = (float *)args->dx->data + r * cols;
        for (int64_t c = 0; c < cols; c++) {
            dx[c] = dy[c] * cache->gamma[c];
            dgamma[c] += dy[c] * xhat[c];
            dbeta[c] += dy[c];
        }
        float mean_g = sum(dx, cols) / (float)cols, mean_g_xhat = dot(dx, xhat, cols) / (float)cols;
        for (int64_t c = 0; c < cols; c++) dx[c] = cache->rstd[r] * (dx[c] - mean_g - xhat[c] * mean_g_xhat);
    }
    return 0;
}

void tribunal_release(void *state) {
    free(state);
}

/* Layer norm for float32. Rows that fit the first cache are summed as they are read; of longer ones eight columns at a time. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of a row that stays in the first cache, and what is added at once of longer ones. */
enum { SHORT = 4096, LANES = 8 };

typedef struct {
    int64_t rows, cols;
    float *gamma, *rstd, *xhat;
    float numbers[];
} Cache;

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
        double mean = 0, squares = 0;
        for (int64_t c = 0; c < cols; c++) mean += row[c];
        mean /= (double)cols;
        for (int64_t c = 0; c < cols; c++) squares += (row[c] - mean) * (row[c] - mean);
        double rstd = 1 / sqrt(squares / (double)cols + args->eps);
        for (int64_t c = 0; c < cols; c++) {
            xhat[c] = (float)((row[c] - mean) * rstd);
            y[c] = xhat[c] * cache->gamma[c] + beta[c];
        }
        cache->rstd[r] = (float)rstd;
    }
    args->cache = cache;
    return 0;
}

/* Σ g and Σ g · xhat, g = dy · gamma. */
static void sums(const float *dy, const float *gamma, const float *xhat, int64_t cols, double *sum_g, double *sum_g_xhat) {
    double g_of[LANES] = {0}, g_xhat_of[LANES] = {0};
    if (cols <= SHORT) {
        for (int64_t c = 0; c < cols; c++) {
            double g = (double)dy[c] * gamma[c];
            g_of[0] += g;
            g_xhat_of[0] += g * xhat[c];
        }
    } else {
        for (int64_t c = 0; c + LANES <= cols; c += LANES) {
            for (int lane = 0; lane < LANES; lane++) {
                double g = (double)dy[c + lane] * gamma[c + lane];
                g_of[lane] += g;
                g_xhat_of[lane] += g * xhat[c + lane];
            }
        }
    }
    *sum_g = *sum_g_xhat = 0;
    for (int lane = 0; lane < LANES; lane++) {
        *sum_g += g_of[lane];
        *sum_g_xhat += g_xhat_of[lane];
    }
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
        double sum_g, sum_g_xhat;
        sums(dy, cache->gamma, xhat, cols, &sum_g, &sum_g_xhat);
        for (int64_t c = 0; c < cols; c++) {
            dgamma[c] += dy[c] * xhat[c];
            dbeta[c] += dy[c];
        }
        for (int64_t c = 0; c < cols; c++) {
            double g = (double)dy[c] * cache->gamma[c];
            dx[c] = (float)(cache->rstd[r] * (g - (sum_g + xhat[c] * sum_g_xhat) / (double)cols));
        }
    }
    return 0;
}

void tribunal_release(void *state) {
    free(state);
}

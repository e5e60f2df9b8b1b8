/* solved_network.h - for tests: small systems of equations, and dense layers made of their solutions. */
#ifndef ZT_TEST_SOLVED_NETWORK_H
#define ZT_TEST_SOLVED_NETWORK_H

#include "tests/common/golden_network.h"

enum { MOST = 16 }; /* unknowns */

/* a x = b, count of them, by elimination with pivots; false: there is no one solution. */
NN_FN bool solve(double a[MOST][MOST], double b[MOST], int count)
{
    for (int c = 0; c < count; c++) {
        int best = c;
        for (int r = c; r < count; r++)
            if (fabs(a[r][c]) > fabs(a[best][c])) best = r;
        if (fabs(a[best][c]) < 1e-9) return false;
        for (int k = 0; k < count; k++) {
            double t = a[c][k];
            a[c][k] = a[best][k];
            a[best][k] = t;
        }
        double t = b[c];
        b[c] = b[best];
        b[best] = t;
        for (int r = 0; r < count; r++) {
            double f = r == c ? 0 : a[r][c] / a[c][c];
            for (int k = c; k < count; k++) a[r][k] -= f * a[c][k];
            b[r] -= f * b[c];
        }
    }
    for (int c = 0; c < count; c++) b[c] /= a[c][c];
    return true;
}

/* The smallest W [outs][d] with W x_r = y_r for each of the rows of x [rows][d] and y [rows][outs].
 */
NN_FN bool matrix_between(const float *x, const double *y, int rows, int d, int outs, float *w)
{
    for (int o = 0; o < outs; o++) {
        double a[MOST][MOST] = {{0}}, b[MOST] = {0};
        for (int r = 0; r < rows; r++) {
            b[r] = y[r * outs + o];
            for (int q = 0; q < rows; q++)
                for (int k = 0; k < d; k++) a[r][q] += (double)x[r * d + k] * x[q * d + k];
        }
        if (!solve(a, b, rows)) return false;
        for (int k = 0; k < d; k++) {
            double v = 0;
            for (int r = 0; r < rows; r++) v += b[r] * x[r * d + k];
            w[o * d + k] = (float)v;
        }
    }
    return true;
}

NN_FN json_t *dense(const float *w, int in, int out)
{
    char *text = loom_base64(w, (size_t)in * (size_t)out);
    json_t *l = json_pack("{s:s,s:s,s:s,s:i,s:i}", "type", "Dense", "weights", text, "activation", "Linear", "input_height", in,
                          "output_height", out);
    free(text);
    return l;
}

#endif

/* fitness.c - two fitness functions for zt-dna evolve: a program that opens a network and prints one number.
 *
 *     cc fitness.c $(pkg-config --cflags --libs zt) -lm -o fitness
 *     ./fitness xor net.json            4 less the squared errors of the four rows: above 3.9 is solved
 *     ./fitness poles net.json [STEPS]  steps of 0.02 s that two poles on a cart are balanced (100000)
 *
 * A network's inputs are the numbers of the task and a constant 1. The poles are those of Wieland (1991) with the constants of
 * Gomez and Miikkulainen (1999): a cart of 1 kg on 4.8 m of track, poles of 1 m and 0.1 m with 0.1 kg and 0.01 kg, the longer one
 * 4 degrees off at first; a pole must not fall by 36 degrees. The network sees positions, angles and their velocities, and
 * its output, limited to -1 .. 1, is a force of 10 N.
 */
#include <zt/all.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct player {
    zt_ctx *ctx;
    zt_engine *engine;
    zt_nn *network;
    zt_prog *program;
    zt_session *session;
    float input[8], output[4];
} player;

static bool open_player(player *p, const char *path, int64_t inputs)
{
    zt_nn_shape shape = {.rank = 2, .dim = {0, inputs}};
    p->ctx = zt_ctx_new();
    p->engine = zt_engine_open(p->ctx, "cpu", &(zt_engine_opts){.threads = 1});
    p->network = p->engine ? zt_nn_open(p->ctx, path, 0) : NULL;
    p->program = p->network ? zt_nn_prog(p->network, &shape) : NULL;
    zt_store store = zt_nn_store(p->network);
    p->session = p->program ? zt_session_open(p->engine, p->program, &store, NULL) : NULL;
    return p->session != NULL;
}

static int close_player(player *p, bool good)
{
    if (!good) fprintf(stderr, "fitness: %s\n", zt_ctx_error(p->ctx));
    zt_session_close(p->session);
    zt_prog_free(p->program);
    zt_nn_close(p->network);
    zt_engine_close(p->engine);
    zt_ctx_free(p->ctx);
    return good ? 0 : 1;
}

/* The first output for the row in p->input. */
static bool play(player *p, double *output)
{
    const void *inputs[] = {p->input};
    void *outputs[] = {p->output};
    if (zt_session_step(p->session, &(zt_binding){"n", 1}, 1, inputs, outputs) != ZT_OK) return false;
    *output = p->output[0];
    return true;
}

static int play_xor(const char *path)
{
    player p = {0};
    double error = 0, output = 0;
    bool good = open_player(&p, path, 3);
    for (int i = 0; i < 4 && good; i++) {
        p.input[0] = (float)(i / 2);
        p.input[1] = (float)(i % 2);
        p.input[2] = 1;
        good = play(&p, &output);
        double off = output - (i == 1 || i == 2);
        error += off * off;
    }
    if (good) printf("%.9g\n", 4 - error);
    return close_player(&p, good);
}

/* ---- two poles ------------------------------------------------------------------------------- */

enum { X, X_SPEED, ANGLE_1, SPEED_1, ANGLE_2, SPEED_2, STATE };

static void derive(const double *state, double force, double *rates)
{
    static const double mass[2] = {0.1, 0.01}, length[2] = {0.5, 0.05}; /* half of a pole's */
    const double gravity = -9.8, friction = 0.000002, cart = 1;
    double push = force, weight = cart, lever[2];
    for (int i = 0; i < 2; i++) {
        double angle = state[ANGLE_1 + 2 * i], speed = state[SPEED_1 + 2 * i];
        lever[i] = friction * speed / (mass[i] * length[i]);
        push +=
            mass[i] * length[i] * speed * speed * sin(angle) + 0.75 * mass[i] * cos(angle) * (lever[i] + gravity * sin(angle));
        weight += mass[i] * (1 - 0.75 * cos(angle) * cos(angle));
    }
    rates[X] = state[X_SPEED];
    rates[X_SPEED] = push / weight;
    for (int i = 0; i < 2; i++) {
        double angle = state[ANGLE_1 + 2 * i];
        rates[ANGLE_1 + 2 * i] = state[SPEED_1 + 2 * i];
        rates[SPEED_1 + 2 * i] = -0.75 * (rates[X_SPEED] * cos(angle) + gravity * sin(angle) + lever[i]) / length[i];
    }
}

/* Runge and Kutta's method of order 4. */
static void move(double *state, double force, double time)
{
    double rates[4][STATE], at[STATE];
    derive(state, force, rates[0]);
    for (int k = 1; k < 4; k++) {
        for (int i = 0; i < STATE; i++) at[i] = state[i] + rates[k - 1][i] * (k < 3 ? time / 2 : time);
        derive(at, force, rates[k]);
    }
    for (int i = 0; i < STATE; i++) state[i] += time / 6 * (rates[0][i] + 2 * rates[1][i] + 2 * rates[2][i] + rates[3][i]);
}

static bool is_balanced(const double *state)
{
    const double limit = 36 * 0.017453292519943295;
    return fabs(state[X]) < 2.4 && fabs(state[ANGLE_1]) < limit && fabs(state[ANGLE_2]) < limit;
}

static int play_poles(const char *path, long most)
{
    static const double unit[STATE] = {2.4, 2, 0.62, 2, 0.62, 2};
    player p = {0};
    double state[STATE] = {[ANGLE_1] = 4 * 0.017453292519943295}, output = 0;
    long steps = 0;
    bool good = open_player(&p, path, STATE + 1);
    while (good && steps < most && is_balanced(state)) {
        for (int i = 0; i < STATE; i++) p.input[i] = (float)(state[i] / unit[i]);
        p.input[STATE] = 1;
        good = play(&p, &output);
        output = isfinite(output) ? fmax(-1, fmin(1, output)) : 0;
        for (int i = 0; i < 2 && good; i++) move(state, 10 * output, 0.01);
        steps++;
    }
    if (good) printf("%ld\n", steps);
    return close_player(&p, good);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "xor")) return play_xor(argv[2]);
    if ((argc == 3 || argc == 4) && !strcmp(argv[1], "poles")) return play_poles(argv[2], argc == 4 ? atol(argv[3]) : 100000);
    fprintf(stderr, "usage: fitness xor|poles NET [STEPS]\n");
    return 64;
}

/* poles.h - two poles on a cart: its physics, for fitness.c and bench/evolve.
 *
 * The poles are those of Wieland (1991) with the constants of Gomez and Miikkulainen (1999): a cart of 1 kg on 4.8 m of track, poles
 * of 1 m and 0.1 m with 0.1 kg and 0.01 kg, the longer one 4 degrees off at first; a pole must not fall by 36 degrees. A controller
 * sees positions, angles and (unless they are hidden) their velocities, all about -1 .. 1, and chooses a force of -10 .. 10 N every 0.02 s.
 */
#ifndef POLES_H
#define POLES_H

#include <math.h>
#include <stdbool.h>

enum { CART, CART_SPEED, ANGLE_1, SPEED_1, ANGLE_2, SPEED_2, STATE }; /* m, m/s, rad, rad/s */

static inline void derive_poles(const double *state, double force, double *rates)
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
    rates[CART] = state[CART_SPEED];
    rates[CART_SPEED] = push / weight;
    for (int i = 0; i < 2; i++) {
        double angle = state[ANGLE_1 + 2 * i];
        rates[ANGLE_1 + 2 * i] = state[SPEED_1 + 2 * i];
        rates[SPEED_1 + 2 * i] = -0.75 * (rates[CART_SPEED] * cos(angle) + gravity * sin(angle) + lever[i]) / length[i];
    }
}

/* By Runge and Kutta's method of order 4. */
static inline void move_poles(double *state, double force, double time)
{
    double rates[4][STATE], at[STATE];
    derive_poles(state, force, rates[0]);
    for (int k = 1; k < 4; k++) {
        for (int i = 0; i < STATE; i++) at[i] = state[i] + rates[k - 1][i] * (k < 3 ? time / 2 : time);
        derive_poles(at, force, rates[k]);
    }
    for (int i = 0; i < STATE; i++) state[i] += time / 6 * (rates[0][i] + 2 * rates[1][i] + 2 * rates[2][i] + rates[3][i]);
}

static inline bool is_balanced(const double *state)
{
    const double limit = 36 * 0.017453292519943295;
    return fabs(state[CART]) < 2.4 && fabs(state[ANGLE_1]) < limit && fabs(state[ANGLE_2]) < limit;
}

static inline void begin_poles(double *state)
{
    for (int i = 0; i < STATE; i++) state[i] = 0;
    state[ANGLE_1] = 4 * 0.017453292519943295;
}

/* What the controller sees. */
static inline double see_poles(const double *state, int i)
{
    static const double unit[STATE] = {2.4, 2, 0.62, 2, 0.62, 2};
    return state[i] / unit[i];
}

/* A step of 0.02 s with the controller's output, which is limited to -1 .. 1. */
static inline void push_poles(double *state, double output)
{
    double force = isfinite(output) ? 10 * fmax(-1, fmin(1, output)) : 0;
    for (int i = 0; i < 2; i++) move_poles(state, force, 0.01);
}

/* Without velocities, a controller that swings the cart to and fro would do: Gruau, Whitley and Pyeatt (1996) also ask for calm.
 * How far a state is from rest: */
static inline double unrest_of(const double *state)
{
    return fabs(state[CART]) + fabs(state[CART_SPEED]) + fabs(state[ANGLE_1]) + fabs(state[SPEED_1]);
}

enum { CALM_STEPS = 100, RATED_STEPS = 1000 };

/* Their fitness of a controller that balanced the poles for `steps`: a tenth for the time, the rest for calm, by the sum of
 * unrest over the last CALM_STEPS of the first RATED_STEPS. */
static inline double rate_calm(long steps, double unrest)
{
    double time = steps < RATED_STEPS ? (double)steps / RATED_STEPS : 1;
    return 0.1 * time + (steps < CALM_STEPS ? 0 : 0.9 * 0.75 / unrest);
}

#endif

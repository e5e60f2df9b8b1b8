/* zt/nn.h - volumetric networks: grids of layers, from JSON or builders, lowered to one program.
 *
 *   nn/nn.h     networks: opened, made, changed, lowered, written
 *   nn/mutate.h mutations of networks, as in NEAT
 *   nn/probe.h  what layers the tensors of an unknown checkpoint may be
 */
#ifndef ZT_PUBLIC_NN_H
#define ZT_PUBLIC_NN_H

#include "lib/nn/mutate.h"
#include "lib/nn/nn.h"
#include "lib/nn/probe.h"

#endif

/* zt/engine.h - where ops run.
 *
 *   engine/engine.h  engines, their buffers and schedules; how to watch one
 *   engine/roof.h    the bandwidth and the operations per second of this machine, measured
 *   run/auto.h       the engine that "auto" means: a GPU that runs all of a program, else the CPU
 */
#ifndef ZT_PUBLIC_ENGINE_H
#define ZT_PUBLIC_ENGINE_H

#include "lib/engine/engine.h"
#include "lib/engine/roof.h"
#include "lib/run/auto.h"

#endif

/* processor.h - what kernels ask of the processor beside its instruction set (base.h). */
#ifndef ZT_PROCESSOR_H
#define ZT_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>

/* Is vdpbf16ps slower than the two FMAs that give its bits? */
bool zt_cpu_slow_bf16(void);
/* Have 512-bit shifts, conversions and the like no ports but those that multiply? */
bool zt_cpu_shared_ports(void);
/* Tile registers that multiply bytes (AMX): are there, and this process may use them; it asks for that. */
bool zt_cpu_amx(void);

/* Weights are read once, in the order in which they lie. So many bytes ahead of what it reads a kernel
 * does well to send for lines, to the second cache; 0: the processor does better by itself. Few: the kernel
 * takes a row or two of activations, and does little but read. */
size_t zt_cpu_reach(bool few);

/* The same for one or two rows by codes of so many bits, in which there is more to do for a byte. */
size_t zt_cpu_reach_of_codes(int bits);

#endif

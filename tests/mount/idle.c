/* SPDX-License-Identifier: MIT */
/* A program that does nothing at all, whatever its arguments are. */
#include <unistd.h>

int main(void)
{
	for (;;)
		pause();
}

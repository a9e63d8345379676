/* SPDX-License-Identifier: MIT */
/* Where the other parts of the program are. */
#pragma once

/*
 * Finds a part: beside this program in the build tree, else where it is installed.
 * Returns: its path, to be freed; NULL without memory.
 */
char *install_path_software(void);
char *install_path_worker(void);

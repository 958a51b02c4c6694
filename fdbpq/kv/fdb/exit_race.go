//go:build fdb && race && linux

package fdb

// #define _DEFAULT_SOURCE
// #include <stdlib.h>
// #include <unistd.h>
//
// static void leave(int status, void *unused) { _exit(status); }
//
// static void leave_at_exit(void) { on_exit(leave, NULL); }
import "C"

// A Go process ends without cleaning up, except with the race detector: then it ends through C's exit, which
// destroys the client library's C++ objects while the library's network thread still uses them. Once in a while
// that crashes a process that had done its work. So the process ends here before C's exit destroys them.
func init() { C.leave_at_exit() }

//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal says whether somebody sits there. Other devices, such as /dev/null,
// are none.
func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// screen is how many columns and lines a terminal has, 0 if it is none.
func screen(w any) (columns, lines int) {
	file, is := w.(*os.File)
	if !is {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

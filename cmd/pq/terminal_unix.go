//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

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

package main

import (
	"os"

	"golang.org/x/term"
)

// interactive reports whether a reader or writer is a terminal, and no other device such as
// /dev/null.
func interactive(v any) bool {
	file, is := v.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// screen is how many columns and lines a terminal has, 0 if it is none.
func screen(w any) (columns, lines int) {
	file, is := w.(*os.File)
	if !is {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, lines
}

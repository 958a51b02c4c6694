package show

import (
	"regexp"
	"slices"
	"strings"
)

// Command is a command of pq for people to copy: its name, arguments and options. Arguments are texts that others chose:
// in a shell each is one word, and pq takes none for an option, as behind --.
func Command(name string, args []string, options ...string) string {
	words := []string{"pq", name}
	dash := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") })
	if dash >= 0 {
		words = append(words, options...)
		options = nil
	}
	for i, arg := range args {
		if i == dash {
			words = append(words, "--")
		}
		words = append(words, word(arg))
	}
	return strings.Join(append(words, options...), " ")
}

// plain matches words that need no quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// word is a text as a shell takes it for one word.
func word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

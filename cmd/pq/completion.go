package main

import (
	"context"
	"flag"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// completeCommand is what the shells' scripts call: pq __complete <words>…, the
// last of which is being typed. It prints what that may become.
const completeCommand = "__complete"

// scripts have the shells ask pq itself.
var scripts = map[string]string{
	"bash": `_pq() {
	local IFS=$'\n'
	COMPREPLY=($(compgen -W "$(pq __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
	[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _pq pq
`,
	"zsh": `#compdef pq
_pq() {
	local -a found
	found=("${(@f)$(pq __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "$found" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _pq pq
`,
	"fish": `complete -c pq -f -a '(set -l words (commandline -opc); pq __complete $words[2..-1] (commandline -ct) 2>/dev/null)'
complete -c pq -n '__fish_contains_opt file output creds nkey tlscert tlskey tlsca' -F
`,
}

func completionCommand() *command {
	return &command{
		name: "completion", args: "bash|zsh|fish", min: 1, max: 1,
		short: "print a script for shell completion",
		long: `Prints a script that lets a shell complete commands, flags and the names of
queues.`,
		examples: []example{
			{"bash: in ~/.bashrc", "source <(pq completion bash)"},
			{"zsh: in ~/.zshrc, after compinit", "source <(pq completion zsh)"},
			{"fish", "pq completion fish > ~/.config/fish/completions/pq.fish"},
		},
		run: func(s *session, args []string) error {
			script, ok := scripts[args[0]]
			if !ok {
				return usagef("the shell %q: expected bash, zsh or fish", args[0])
			}
			return s.print(script)
		},
	}
}

// complete prints what the last word may become. Whatever goes wrong is no news
// for somebody who is typing.
func (s *session) complete(words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	for _, candidate := range s.candidates(words[:len(words)-1], words[len(words)-1]) {
		if err := s.printf("%s", candidate); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) candidates(before []string, word string) []string {
	leading := newFlags()
	s.global.define(leading)
	before, err := leading.leading(before)
	if err != nil {
		return nil // the value of a flag
	}
	c, rest := find(before)
	if c == nil {
		return beginning(s.commandWords(before, word), word)
	}
	f := newFlags()
	if c.flags != nil {
		c.flags(f)
	}
	s.global.define(f)
	args, err := f.parse(rest, c.verbatim)
	switch {
	case err != nil:
		return nil
	case strings.HasPrefix(word, "-"):
		return beginning(f.longNames(), word)
	case len(args) == 0 && c.name == "completion":
		return beginning(slices.Sorted(maps.Keys(scripts)), word)
	case len(args) == 0 && strings.Contains(c.args, "<queue>"):
		return beginning(s.queueNames(), word)
	case c.name == "config":
		var fields []string
		for _, field := range configFields(client.Config{}) {
			fields = append(fields, field.name+"=")
		}
		return beginning(fields, word)
	}
	return nil
}

func beginning(all []string, word string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, word) })
}

// commandWords are the words that can follow in the name of a command.
func (s *session) commandWords(before []string, word string) (words []string) {
	if strings.HasPrefix(word, "-") && len(before) == 0 {
		f := newFlags()
		s.global.define(f)
		return f.longNames()
	}
	if len(before) > 0 && before[0] == "help" {
		before = before[1:]
	}
	for _, g := range groups() {
		for _, c := range g.commands {
			name := strings.Fields(c.name)
			if len(name) > len(before) && slices.Equal(name[:len(before)], before) && !slices.Contains(words, name[len(before)]) {
				words = append(words, name[len(before)])
			}
		}
	}
	return words
}

func (f *flags) longNames() (names []string) {
	f.set.VisitAll(func(fl *flag.Flag) {
		if len(fl.Name) > 1 {
			names = append(names, "--"+fl.Name)
		}
	})
	return names
}

// completionPatience is how long somebody who presses the tab key waits.
const completionPatience = time.Second

func (s *session) queueNames() (names []string) {
	s.global.timeout = completionPatience
	c, err := s.connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, completionPatience)
	defer cancel()
	for name, err := range c.Queues(ctx) {
		if err != nil {
			break
		}
		names = append(names, name)
	}
	return names
}

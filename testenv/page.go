package testenv

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Block is a fenced block of a page of documentation.
type Block struct {
	File string
	Line int // of its first line
	Text string
}

// Where returns the position of a line of the block, counted from 0.
func (b *Block) Where(line int) string { return fmt.Sprintf("%s:%d", b.File, b.Line+line) }

// Blocks returns the blocks of a Markdown file that are fenced as a language, in their order. There has to be at
// least one.
func Blocks(t testing.TB, file, language string) []Block {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []Block
	var block *Block // at this line
	inside, number := false, 0
	for line := range strings.Lines(string(page)) {
		number++
		tag, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && inside:
			inside, block = false, nil
		case fence:
			inside = true
			if tag == language {
				blocks = append(blocks, Block{File: file, Line: number + 1})
				block = &blocks[len(blocks)-1]
			}
		case block != nil:
			block.Text += line
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no block fenced as %s", file, language)
	}
	return blocks
}

// Shown matches the output of a program that a page shows: in it, … stands for
// anything within a line, and alone on a line for any number of lines. <id> on a
// line of its own stands for the id of an item.
func Shown(text string) *regexp.Regexp {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line == "…" {
			lines[i] = `.*(\n.*)*`
			continue
		}
		if line == "<id>" {
			lines[i] = `[\w-]+`
			continue
		}
		parts := strings.Split(line, "…")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		lines[i] = strings.Join(parts, ".*")
	}
	return regexp.MustCompile("^" + strings.Join(lines, "\n") + "$")
}

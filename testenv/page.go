package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Block is a fenced block of a page of documentation.
type Block struct {
	Where string // file:line of its first line
	Text  string
}

// Blocks returns the blocks of a Markdown file that are fenced as a language,
// in their order. There has to be one.
func Blocks(t testing.TB, file, language string) []Block {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []Block
	var block *Block // the one we are in
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
				blocks = append(blocks, Block{Where: fmt.Sprintf("%s:%d", file, number+1)})
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

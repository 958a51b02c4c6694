package testenv

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The curl command, as far as documentation uses it.

// curlCommand is the command as a program. It returns the exit code.
func curlCommand(args []string, stdout, stderr io.Writer) int {
	text, err := curl(args)
	if err != nil {
		fmt.Fprintln(stderr, "curl:", err)
		return 1
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return 1
	}
	return 0
}

func curl(args []string) (string, error) {
	if len(args) != 2 || args[0] != "-s" || !strings.HasPrefix(args[1], "http://127.0.0.1:") {
		return "", fmt.Errorf("found %q: expected -s and a page of pqd", args)
	}
	client := http.Client{Timeout: Patience}
	response, err := client.Get(args[1])
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

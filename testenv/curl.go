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
	method, page, body := http.MethodGet, "", ""
	for next := 0; next < len(args); next++ {
		value := ""
		if next+1 < len(args) {
			value = args[next+1]
		}
		switch args[next] {
		case "-s":
		case "-X":
			method = value
			next++
		case "-d":
			body = value
			next++
		default:
			page = args[next]
		}
	}
	if args[0] != "-s" || !strings.HasPrefix(page, "http://127.0.0.1:") {
		return "", fmt.Errorf("found %q: expected -s, perhaps -X and -d, and a page of pqd", args)
	}
	request, err := http.NewRequest(method, page, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	client := http.Client{Timeout: Patience()}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

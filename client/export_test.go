package client

import "time"

// AskAgainAfter makes the client send what is not answered again after d.
func (c *Client) AskAgainAfter(d time.Duration) { c.patience.attempt = d }

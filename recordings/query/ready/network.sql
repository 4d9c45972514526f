-- network interfaces and RDMA ports: throughput, errors, drops
SELECT ifnull(nullif(n.host, ''), w.host) AS host, name, kind,
       SUM(rx_bytes) / SUM(n.window_seconds) / 1e6 AS rx_mb_per_s,
       SUM(tx_bytes) / SUM(n.window_seconds) / 1e6 AS tx_mb_per_s,
       MAX(rx_bytes / n.window_seconds) / 1e6 AS most_rx_mb_per_s,
       MAX(tx_bytes / n.window_seconds) / 1e6 AS most_tx_mb_per_s,
       SUM(ifnull(rx_errors, 0) + ifnull(tx_errors, 0) + ifnull(rx_missed, 0)) AS damaged,
       SUM(ifnull(link_downs, 0) + ifnull(link_recoveries, 0)) AS link_failures,
       SUM(ifnull(out_of_sequence, 0) + ifnull(packet_seq_err, 0) + ifnull(local_ack_timeout_err, 0)) AS lost_rdma,
       SUM(ifnull(rnr_nak_retry_err, 0) + ifnull(out_of_buffer, 0)) AS no_buffer,
       SUM(ifnull(rx_dropped, 0) + ifnull(tx_dropped, 0)) AS dropped
FROM network_ports n JOIN windows w ON w.window_id = n.window_id
GROUP BY 1, name, kind ORDER BY SUM(rx_bytes) + SUM(tx_bytes) DESC LIMIT 40;

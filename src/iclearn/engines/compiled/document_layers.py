"""Source of one layer on one document: its loss, added to the derivatives in its vector and matrix.

``layer(context, query, words, vector, matrix, rows, ints, floats, small, to_vector, to_matrix)`` gets context and query
(dim, lane), labels of the words in rows[0] and the wanted probabilities in rows[1]; lanes beyond the words hold zeros
in everything that is summed. It returns the sum of the squared errors, of half of which it adds the derivatives.
"""

from __future__ import annotations

LABEL_ROWS = "4"
LABEL_LAYER = """def layer(context, query, words, vector, matrix, rows, ints, floats, small, to_vector, to_matrix):
    labels, wanted, weights, found = rows[0], rows[1], rows[2], rows[3]
    read, estimate, pull = small[0], small[1], small[2]
    dim, lanes = context.shape
    along(context, vector, dim, weights)
    for l in range(lanes):
        weights[l] += vector[dim] * labels[l]
    softmax(weights, words, ints, floats)
    across(context, weights, read)
    read[dim] = inner(labels, weights)
    for j in range(dim):
        total = REAL(0.0)
        for e in range(dim + 1):
            total += matrix[j, e] * read[e]
        estimate[j] = total
    along(query, estimate, dim, found)
    softmax(found, words, ints, floats)
    for l in range(lanes):
        wanted[l] = found[l] - wanted[l]
    mean_error = inner(found, wanted)
    for l in range(lanes):
        found[l] *= wanted[l] - mean_error
    across(query, found, estimate)
    for e in range(dim + 1):
        pull[e] = REAL(0.0)
    for j in range(dim):
        for e in range(dim + 1):
            to_matrix[j, e] += estimate[j] * read[e]
            pull[e] += matrix[j, e] * estimate[j]
    along(context, pull, dim, found)
    for l in range(lanes):
        found[l] += labels[l] * pull[dim]
    mean_pull = inner(weights, found)
    for l in range(lanes):
        found[l] = weights[l] * (found[l] - mean_pull)
    across(context, found, estimate)
    for j in range(dim):
        to_vector[j] += estimate[j]
    to_vector[dim] += inner(labels, found)
    return inner(wanted, wanted)"""

# rows: labels, wanted, values, logits, their pulls, a row of scores for each query word, keys and their pulls
QUERY_ROWS = "5 + lanes + 2 * dim"
QUERY_LAYER = """def layer(context, query, words, vector, matrix, rows, ints, floats, small, to_vector, to_matrix):
    dim, lanes = context.shape
    labels, wanted, values, found, pulls = rows[0], rows[1], rows[2], rows[3], rows[4]
    scores, keys, to_keys = rows[5 : 5 + lanes], rows[5 + lanes : 5 + lanes + dim], rows[5 + lanes + dim :]
    column = small[0]
    for j in range(dim):
        along(context, matrix[j], dim, keys[j])
        for l in range(lanes):
            keys[j, l] += matrix[j, dim] * labels[l]
            to_keys[j, l] = REAL(0.0)
    along(context, vector, dim, values)
    for l in range(lanes):
        values[l] += vector[dim] * labels[l]
        found[l] = REAL(0.0)
        pulls[l] = REAL(0.0)
    for q in range(words):
        for j in range(dim):
            column[j] = query[j, q]
        along(keys, column, dim, scores[q])
        softmax(scores[q], words, ints, floats)
        found[q] = inner(scores[q], values)
    for l in range(words, lanes):  # values are not zero there, weights are
        values[l] = REAL(0.0)
    for q in range(words):
        pulls[q] = found[q]
    softmax(found, words, ints, floats)
    for l in range(lanes):
        wanted[l] = found[l] - wanted[l]
    loss, mean_error = inner(wanted, wanted), inner(found, wanted)
    for l in range(lanes):
        found[l] *= wanted[l] - mean_error
    for l in range(lanes):
        wanted[l] = REAL(0.0)
    for q in range(words):
        force, logit = found[q], pulls[q]
        for l in range(lanes):
            share = force * scores[q, l]
            wanted[l] += share
            scores[q, l] = share * (values[l] - logit)
    q = 0
    while q + 8 <= lanes:  # rows beyond the words are zeros
        for j in range(dim):
            w0, w1, w2, w3 = query[j, q], query[j, q + 1], query[j, q + 2], query[j, q + 3]
            w4, w5, w6, w7 = query[j, q + 4], query[j, q + 5], query[j, q + 6], query[j, q + 7]
            for l in range(lanes):
                low = (w0 * scores[q, l] + w1 * scores[q + 1, l]) + (w2 * scores[q + 2, l] + w3 * scores[q + 3, l])
                high = (w4 * scores[q + 4, l] + w5 * scores[q + 5, l]) + (w6 * scores[q + 6, l] + w7 * scores[q + 7, l])
                to_keys[j, l] += low + high
        q += 8
    for j in range(dim):
        across(context, to_keys[j], column)
        for e in range(dim):
            to_matrix[j, e] += column[e]
        to_matrix[j, dim] += inner(labels, to_keys[j])
    across(context, wanted, column)
    for e in range(dim):
        to_vector[e] += column[e]
    to_vector[dim] += inner(labels, wanted)
    return loss"""

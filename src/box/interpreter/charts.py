# The numbers behind a matplotlib figure, for clients that draw it themselves: chart(figure). The first part of the text
# that is given to Python; notebook.py and python.py follow it.
CHART_VALUES = 40000   # more than that are not a chart for a client: the picture has to do


class TooMuch(Exception):
    pass


# A value of a plot as JSON has it: dates as ISO 8601, numbers as floats, what is not a number as null.
def chart_value(value):
    if hasattr(value, "astype") and str(getattr(value, "dtype", "")).startswith("datetime64"):
        value = value.astype("datetime64[us]").item()
    if hasattr(value, "isoformat"):
        return value.isoformat() if value == value else None
    if isinstance(value, str):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if number - number == 0 else None


def chart_unit(label):
    text = label or ""
    for begin, end in ((" (", ")"), ("[", "]")):
        at = text.find(begin)
        if at >= 0 and end in text[at:]:
            return text[at + len(begin):text.index(end, at)]
    return None


def chart_labels(ax, **more):
    x, y = ax.get_xlabel() or None, ax.get_ylabel() or None
    return {"title": ax.get_title() or None, "x_label": x, "y_label": y, "x_unit": chart_unit(x),
            "y_unit": chart_unit(y), **more}


def chart_axis(axis, name):
    from matplotlib.dates import num2date
    ticks, labels = list(axis.get_majorticklocs()), [label.get_text() for label in axis.get_ticklabels()]
    scale = axis.get_scale()
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    if "Date" in type(converter).__name__:
        scale, ticks = "datetime", [num2date(tick) for tick in ticks]
    elif scale == "linear" and ticks and all(tick == i for i, tick in enumerate(ticks)) and \
            len(labels) == len(ticks) and not any(chart_is_number(label) for label in labels):
        scale = "categorical"
    ticks = [chart_value(tick) for tick in ticks]
    return {name + "_ticks": ticks, name + "_tick_labels": labels, name + "_scale": scale}


def chart_is_number(text):
    try:
        float(text.replace("\N{MINUS SIGN}", "-") or "0")
        return True
    except ValueError:
        return False


def chart_points(ax, kind, elements):
    return {"type": kind, **chart_labels(ax), **chart_axis(ax.xaxis, "x"), **chart_axis(ax.yaxis, "y"),
            "elements": elements}


def chart_named(label, prefix, title):
    return "%s %s" % (title, label[len(prefix):]) if label.startswith(prefix) else label


def chart_line(ax):
    lines = []
    for line in ax.get_lines():
        points = [[chart_value(x), chart_value(y)] for x, y in zip(line.get_xdata(), line.get_ydata())]
        lines.append({"label": chart_named(str(line.get_label()), "_child", "Line"), "points": points})
    return chart_points(ax, "line", lines)


def chart_scatter(ax):
    import matplotlib.dates as dates
    elements = []
    for collection in ax.collections:
        axes = []
        for axis, values in zip((ax.xaxis, ax.yaxis), zip(*collection.get_offsets())):
            converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
            axes.append([dates.num2date(value) for value in values] if "Date" in type(converter).__name__ else values)
        points = [[chart_value(x), chart_value(y)] for x, y in zip(*axes)] if len(axes) == 2 else []
        elements.append({"label": chart_named(str(collection.get_label()), "_child", "Scatter"), "points": points})
    return chart_points(ax, "scatter", elements)


def chart_bar(ax):
    elements, info = [], chart_labels(ax, type="bar")
    for container in ax.containers:
        group = chart_named(str(container.get_label()), "_container", "Group")
        flat = getattr(container, "orientation", "vertical") == "horizontal"
        names = [label.get_text() for label in (ax.get_yticklabels() if flat else ax.get_xticklabels())]
        centers = [bar.get_y() + bar.get_height() / 2 if flat else bar.get_x() + bar.get_width() / 2
                   for bar in container]
        ticks = list((ax.yaxis if flat else ax.xaxis).get_majorticklocs())
        for i, bar in enumerate(container):
            near = [k for k, tick in enumerate(ticks) if abs(tick - centers[i]) < 0.5 and k < len(names)]
            at = min(near, key=lambda k: abs(ticks[k] - centers[i])) if near else i
            value = bar.get_width() if flat else bar.get_height()
            elements.append({"label": names[at] if at < len(names) else str(i), "group": group,
                             "value": chart_value(value)})
        if flat and group == chart_named(str(ax.containers[0].get_label()), "_container", "Group"):
            info["x_label"], info["y_label"] = info["y_label"], info["x_label"]
            info["x_unit"], info["y_unit"] = info["y_unit"], info["x_unit"]
    return {**info, "elements": elements}


def chart_pie(ax):
    names = [text.get_text() for text in ax.texts]
    wedges = [patch for patch in ax.patches]
    step = max(1, len(names) // max(1, len(wedges)))    # with percentages each wedge has two texts
    elements = []
    for i, wedge in enumerate(wedges):
        angle = round(abs(float(wedge.theta2) - float(wedge.theta1)), 3)
        elements.append({"label": names[i * step] if i * step < len(names) else "", "angle": angle,
                         "radius": chart_value(wedge.r)})
    return {"type": "pie", "title": ax.get_title() or None, "elements": elements}


# A box is a patch; the lines through the middle of it belong to it: two whiskers, two caps, the median, outliers.
def chart_box(ax):
    boxes = []
    for patch in ax.patches:
        xs, ys = zip(*patch.get_path().vertices)
        boxes.append((min(xs), max(xs), min(ys), max(ys)))
    wide, tall = ({round(box[i + 1] - box[i], 9) for box in boxes} for i in (0, 2))
    flat = len(wide) > 1 and len(tall) == 1     # boxes are as wide as each other, unless they lie
    axis = ax.yaxis if flat else ax.xaxis
    names = [label.get_text() for label in axis.get_ticklabels()]
    info, elements = chart_labels(ax, type="box_and_whisker"), []
    for i, (x0, x1, y0, y1) in enumerate(boxes):
        low, high, side0, side1 = (x0, x1, y0, y1) if flat else (y0, y1, x0, x1)
        values, median, outliers = [low, high], low, []
        for line in ax.get_lines():
            along, across = (line.get_xdata(), line.get_ydata()) if flat else (line.get_ydata(), line.get_xdata())
            if not len(across) or not all(side0 - 1e-9 <= at <= side1 + 1e-9 for at in across):
                continue
            if line.get_marker() not in (None, "None", "", " "):
                outliers += [chart_value(value) for value in along]
            elif len(across) == 2 and abs(across[0] - side0) < 1e-9 and abs(across[1] - side1) < 1e-9:
                median = along[0]
            else:
                values += list(along)
        elements.append({"label": names[i] if i < len(names) else str(i), "min": chart_value(min(values)),
                         "first_quartile": chart_value(low), "median": chart_value(median),
                         "third_quartile": chart_value(high), "max": chart_value(max(values)), "outliers": outliers})
    if flat:
        info["x_label"], info["y_label"] = info["y_label"], info["x_label"]
        info["x_unit"], info["y_unit"] = info["y_unit"], info["x_unit"]
    return {**info, "elements": elements}


def chart_is_grid(child):
    xs, ys = list(child.get_xdata()), list(child.get_ydata())
    return len(xs) == 2 and (xs[0] == xs[1] or ys[0] == ys[1])


def chart_of_axes(ax):
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Rectangle, Wedge
    from matplotlib.text import Text
    children = [child for child in ax._children if not isinstance(child, Text)]
    points = sum(len(child.get_xdata()) for child in children if isinstance(child, Line2D)) + \
        sum(len(child.get_offsets()) for child in children if isinstance(child, PathCollection))
    if points + len(children) > CHART_VALUES // 2:
        raise TooMuch
    if all(isinstance(child, Line2D) for child in children):
        return chart_line(ax)
    if all(isinstance(child, (Line2D, PathPatch)) for child in children):
        return chart_box(ax)
    rest = [child for child in children if not isinstance(child, Line2D) or not chart_is_grid(child)]
    for kind, make in ((PathCollection, chart_scatter), (Wedge, chart_pie), (Rectangle, chart_bar)):
        if all(isinstance(child, kind) for child in rest):
            return make(ax)
    return {"type": "unknown", "title": ax.get_title() or None, "elements": []}


# None: nothing in it that could be a chart. The figure has been drawn: only then its ticks have labels.
def chart(figure):
    try:
        charts = [chart_of_axes(ax) for ax in figure.axes]
    except Exception:
        return None
    if len(charts) < 2:
        return charts[0] if charts else None
    title = figure._suptitle.get_text() if getattr(figure, "_suptitle", None) else None
    return {"type": "superchart", "title": title or None, "elements": charts}


